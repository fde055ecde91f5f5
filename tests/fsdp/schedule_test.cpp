#include "fsdp/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

// In whatever orders the passes use their units: forward goes by the pass just before that gathered
// any, and not by an older one. Units that were not gathered do not count: ranks may differ in
// them.
TEST(Schedule, OfForwardIsThatOfThePassBefore) {
  testing::run_ranks(
      testing::Backend::self, 1, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        testing::TinyTraining training(context, std::move(group), {});
        std::vector<Unit*> before, pass;
        for (Unit& unit : training.sharded.units()) pass.push_back(&unit);
        Schedule schedule;
        std::mt19937 random(1);
        for (int i = 0; i < 20; ++i) {
          std::ranges::shuffle(pass, random);
          schedule.begin();
          for (std::size_t at = 0; at < before.size(); ++at) {
            before[at]->gathered_since_last_forward = true;
            schedule.begin_forward(*before[at]);
            for (std::size_t distance = 1; distance <= before.size(); ++distance) {
              const auto from = before.begin() + static_cast<std::ptrdiff_t>(at) + 1;
              const auto left = static_cast<std::size_t>(before.end() - from);
              const std::vector<Unit*> next(
                  from, from + static_cast<std::ptrdiff_t>(std::min(distance, left)));
              EXPECT_EQ(schedule.next_in_forward(static_cast<int>(distance)), next) << "pass " << i;
            }
          }
          schedule.begin();
          std::vector<Unit*> gathered;
          const bool any = random() % 3 != 0;
          for (Unit* unit : pass) {
            if (any && random() % 4 != 0) {
              gathered.push_back(unit);
              unit->gathered_since_last_forward = true;
            }
            schedule.begin_forward(*unit);
          }
          if (!gathered.empty()) before = gathered;
        }
      });
}

// A unit that is used twice is guessed by where it is, and what runs again in backward is no
// forward.
TEST(Schedule, OfForwardKnowsWhichUseItIs) {
  testing::run_ranks(testing::Backend::self, 1,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       testing::TinyTraining training(context, std::move(group), {});
                       const std::span<Unit> u = training.sharded.units();
                       const std::vector<Unit*> pass = {&u[0], &u[1], &u[0], &u[2]};
                       Schedule schedule;
                       const auto forward = [&](Unit& unit) {
                         unit.gathered_since_last_forward = true;
                         schedule.begin_forward(unit);
                         return schedule.next_in_forward(1);
                       };
                       for (int i = 0; i < 3; ++i) {
                         schedule.begin();
                         for (std::size_t at = 0; at < pass.size(); ++at) {
                           std::vector<Unit*> next;
                           if (i > 0 && at + 1 < pass.size()) next = {pass[at + 1]};
                           EXPECT_EQ(forward(*pass[at]), next) << "pass " << i << ", use " << at;
                         }
                         schedule.begin_backward(u[2]);
                         EXPECT_TRUE(forward(u[3]).empty());
                       }
                     });
}

// Backward goes the way of forward back, whatever that was: units used twice come twice, and one
// whose output nobody used is passed over.
TEST(Schedule, OfBackwardIsThatOfForwardReversed) {
  testing::run_ranks(testing::Backend::self, 1,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       testing::TinyTraining training(context, std::move(group), {});
                       const std::span<Unit> units = training.sharded.units();
                       Schedule schedule;
                       std::mt19937 random(2);
                       for (int i = 0; i < 20; ++i) {
                         std::vector<Unit*> pass;
                         for (int use = 0; use < 8; ++use)
                           pass.push_back(&units[random() % units.size()]);
                         schedule.begin();
                         for (Unit* unit : pass) schedule.end_forward(*unit);
                         for (std::size_t at = pass.size(); at-- > 0;) {
                           // Only of a unit that comes once can be said which of its uses had no
                           // backward.
                           if (std::ranges::count(pass, pass[at]) == 1 && random() % 4 == 0)
                             continue;
                           schedule.begin_backward(*pass[at]);
                           std::vector<Unit*> next;
                           if (at > 0) next = {pass[at - 1]};
                           EXPECT_EQ(schedule.next_in_backward(), next);
                         }
                       }
                     });
}

// Layers, of which a pass uses some.
class Picks final : public nn::Module {
 public:
  Picks() {
    for (int i = 0; i < 5; ++i)
      add(std::to_string(i),
          layers_.emplace_back(nn::Linear::Options{.in = 4, .out = 4, .bias = false}));
  }
  std::vector<int> used = {0, 1, 2, 3, 4};

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (const int i : used) x = layers_[static_cast<std::size_t>(i)].forward(tape, x);
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    for (std::size_t at = used.size(); at-- > 0;) {
      dy = layers_[static_cast<std::size_t>(used[at])].backward(tape, dy);
    }
    return dy;
  }
  std::deque<nn::Linear> layers_;
};

// Guesses that were wrong hold their slots until the pass is over. What is prefetched meanwhile
// takes none beyond those planned.
TEST(Schedule, TakesNoSlotMoreThanPlannedForAWrongGuess) {
  testing::run_ranks(
      testing::Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        Picks model;
        comm::Mesh mesh(std::move(group));
        ShardedModel sharded(context, model, mesh,
                             {.forward_prefetch = 1, .wrap_policy = is_a<nn::Linear>});
        for (ShardedParameters* row : sharded.rows()) {
          if (!row->parameters().empty()) row->store(0, std::vector<float>(16, 1));
        }
        const auto count = [&] { return context.ledger.count(MemoryClass::unsharded_parameters); };
        const std::int64_t planned = count().reserved;
        nn::Tape tape(context);
        const auto pass = [&](std::vector<int> used) {
          model.used = std::move(used);
          testing::Owned<float> x({1, 4}), dy({1, 4});
          tape.begin(true);
          sharded.forward(tape, x);
          sharded.backward(tape, dy);
        };
        sharded.zero_grad();
        pass({0, 1, 2, 3, 4});
        pass({0, 2, 3, 4});  // 1 is gathered in vain
        EXPECT_EQ(count().reserved_peak, planned);
        pass({2, 0, 1, 4, 3});
        EXPECT_EQ(count().reserved, planned);
        EXPECT_EQ(count().in_use, 0);
      });
}

// Where ranks may skip different units, reductions keep to one order: each waits for those before
// it. A frozen unit has none, so nobody waits for it, also where it is skipped.
TEST(Schedule, OfReductionsPassesOverAFrozenUnit) {
  testing::run_ranks(
      testing::Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        Picks model;
        model.named_parameters()[1]->requires_grad = false;
        model.used = {0, 2, 3, 4};
        comm::Mesh mesh(std::move(group));
        ShardedModel sharded(
            context, model, mesh,
            {.strategy = ShardingStrategy::shard_gradients, .wrap_policy = is_a<nn::Linear>});
        for (ShardedParameters* row : sharded.rows()) {
          if (!row->parameters().empty()) row->store(0, std::vector<float>(16, 1));
        }
        nn::Tape tape(context);
        testing::Owned<float> x({1, 4}), dy({1, 4});
        tape.begin(true);
        sharded.forward(tape, x);
        context.tracer.start();
        sharded.backward(tape, dy);
        const std::vector<std::string> order = context.tracer.take_order();
        EXPECT_LT(std::ranges::find(order, "RS.0"), std::ranges::find(order, "r.root"));
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp
