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

// Passes use their units in any order. Forward follows the last pass that gathered any unit, and no
// older one. Units that were not gathered do not count, because ranks may differ in them.
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
            for (std::size_t distance = 1; distance <= before.size(); ++distance) {
              const auto from = before.begin() + static_cast<std::ptrdiff_t>(at) + 1;
              const auto left = static_cast<std::size_t>(before.end() - from);
              const std::vector<Unit*> next(
                  from, from + static_cast<std::ptrdiff_t>(std::min(distance, left)));
              Schedule here = schedule;
              EXPECT_EQ(here.begin_forward(*before[at], static_cast<int>(distance)), next)
                  << "pass " << i;
              before[at]->gathered_since_last_forward = true;
            }
            schedule.begin_forward(*before[at], 0);
          }
          schedule.begin();
          std::vector<Unit*> gathered;
          const bool any = random() % 3 != 0;
          for (Unit* unit : pass) {
            if (any && random() % 4 != 0) {
              gathered.push_back(unit);
              unit->gathered_since_last_forward = true;
            }
            const std::vector<Unit*> guess = schedule.begin_forward(*unit, 2);
            const bool is_new = std::ranges::count(before, unit) == 0;
            EXPECT_TRUE(!is_new || guess.empty()) << "the last pass did not use it";
          }
          if (!gathered.empty()) before = gathered;
        }
      });
}

// For a unit that is used twice, the guess depends on the place in the pass. A forward that runs
// again in backward does not count.
TEST(Schedule, OfForwardKnowsWhichUseItIs) {
  testing::run_ranks(testing::Backend::self, 1,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       testing::TinyTraining training(context, std::move(group), {});
                       const std::span<Unit> u = training.sharded.units();
                       const std::vector<Unit*> pass = {&u[0], &u[1], &u[0], &u[2]};
                       Schedule schedule;
                       const auto forward = [&](Unit& unit) {
                         unit.gathered_since_last_forward = true;
                         return schedule.begin_forward(unit, 1);
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

// Backward goes the way of forward back. Units that are used twice come twice, and a unit with an
// unused output is skipped.
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
                           // Only for a unit that comes once can the test know which of its uses
                           // had no backward.
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

// A model of several layers. A pass uses some of them.
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

// Wrong guesses hold their slots until the pass is over. Meanwhile prefetches use only planned
// slots.
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
        pass({0, 2, 3, 4});  // unit 1 is gathered without need
        EXPECT_EQ(count().reserved_peak, planned);
        pass({2, 0, 1, 4, 3});
        EXPECT_EQ(count().reserved, planned);
        EXPECT_EQ(count().in_use, 0);
      });
}

// If ranks may skip different units, reductions keep one order, and each waits for those before it.
// A frozen unit has no reduction, so no unit waits for it, even if it is skipped.
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
