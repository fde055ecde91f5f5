#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nn/embedding.h"
#include "nn/linear.h"
#include "support/layouts.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::Owned;
using testing::TinyOptions;
using testing::TinyTraining;

// Tests FSDP2's controls, which a user sets between passes.

// The reduced gradients of this rank's shards after three micro-steps, unit by unit; and the number
// of reductions. `synced(m, unit)` says whether the unit's gradients are reduced after m.
template <class Synced>
std::vector<std::vector<float>> gradients(const TinyOptions& options, const Synced& synced,
                                          std::int64_t& reductions) {
  std::vector<std::vector<float>> all;
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world), options);
        training.sharded.zero_grad();
        for (std::int64_t m = 0; m < options.micro_steps; ++m) {
          for (const Unit& unit : training.sharded.units()) {
            training.sharded.set_requires_gradient_sync(synced(m, unit), &unit.module());
          }
          training.micro_step(0, m);
        }
        if (context.rank != 0) return;
        reductions = training.mesh.traffic().reduce_scatters;
        for (const ShardedParameters* row : training.sharded.rows()) {
          const std::span<float> shard = row->gradient_shard().template span<float>();
          all.emplace_back(shard.begin(), shard.end());
        }
      });
  return all;
}

// If it is off until the last micro-step, the bits are those of no_sync. If it is on, they are the
// usual ones. Each unit has a switch of its own.
TEST(GradientSync, IsOnAndOffForEachUnit) {
  const TinyOptions usual{.micro_steps = 3};
  TinyOptions no_sync = usual;
  no_sync.no_sync = true;
  const auto always = [](std::int64_t, const Unit&) { return true; };
  const auto in_the_end = [](std::int64_t m, const Unit&) { return m == 2; };
  const auto is_first = [](const Unit& unit) { return unit.name() == "transformer.h.0"; };
  const auto mixed = [&](std::int64_t m, const Unit& unit) { return m == 2 || !is_first(unit); };
  std::int64_t all = 0, one = 0, few = 0, some = 0;
  const auto each = gradients(usual, always, all), added_up = gradients(no_sync, always, one);
  EXPECT_NE(each, added_up);  // the sums are in another order
  EXPECT_EQ(gradients(usual, in_the_end, few), added_up);
  auto expected = each;
  expected[0] = added_up[0];
  EXPECT_EQ(gradients(usual, mixed, some), expected);
  const std::int64_t units = static_cast<std::int64_t>(each.size());
  EXPECT_EQ(all, 3 * units);
  EXPECT_EQ(one, units);
  EXPECT_EQ(few, units);
  EXPECT_EQ(some, 3 * units - 2);
}

// @param ahead how many units forward gathers ahead without a list
std::string order_of_a_step(const auto& prepare, int ahead = 0) {
  std::string line;
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world),
                              {.prefetch = BackwardPrefetch::none, .forward_prefetch = ahead});
        if (ahead > 0) training.step(0);  // so that there is a guess
        prepare(training.sharded, training.model);
        if (context.rank == 0) context.tracer.start();
        training.step(0);
        if (context.rank != 0) return;
        for (const std::string& event : context.tracer.take_order()) line += event + " ";
      });
  for (const std::string path = "transformer.h."; line.find(path) != std::string::npos;) {
    line.replace(line.find(path), path.size(), "b");
  }
  return line;
}

// The lists count in the first pass already, in which there is no guess yet.
TEST(PrefetchLists, SayWhatIsGatheredAhead) {
  const auto lists = [](ShardedModel& sharded, gpt::GPT& model) {
    const nn::Module *b0 = model.blocks()[0].get(), *b1 = model.blocks()[1].get(),
                     *b2 = model.blocks()[2].get();
    sharded.set_modules_to_forward_prefetch(model, {b0});
    sharded.set_modules_to_forward_prefetch(*b0, {b1});
    sharded.set_modules_to_forward_prefetch(*b1, {});
    sharded.set_modules_to_backward_prefetch(model, {b2, b1});
  };
  EXPECT_EQ(order_of_a_step(lists),
            "U.root U.b0 u.b0 U.b1 F.b0 R.b0 u.b1 F.b1 R.b1 U.b2 F.b2 R.b2 r.root u.root "
            "U.b2 U.b1 u.b2 R.b2 RS.b2 u.b1 R.b1 RS.b1 U.b0 R.b0 RS.b0 R.root RS.root ");
}

// At a unit with an empty list no other unit is gathered ahead. At a unit without a list it is the
// one that came next in the last pass.
TEST(PrefetchLists, MayBeEmpty) {
  const auto nothing = [](ShardedModel&, gpt::GPT&) {};
  const auto none_at = [](std::vector<int> blocks) {
    return [blocks](ShardedModel& sharded, gpt::GPT& model) {
      sharded.set_modules_to_forward_prefetch(model, {});
      for (const int b : blocks) sharded.set_modules_to_forward_prefetch(*model.blocks()[b], {});
    };
  };
  const auto forward = [](const std::string& order) {
    return order.substr(0, order.find("r.root"));
  };
  EXPECT_EQ(forward(order_of_a_step(nothing, 1)),
            "U.root U.b0 u.b0 U.b1 F.b0 R.b0 u.b1 U.b2 F.b1 R.b1 u.b2 F.b2 R.b2 ");
  EXPECT_EQ(forward(order_of_a_step(none_at({0}), 1)),
            "U.root U.b0 F.b0 R.b0 U.b1 U.b2 F.b1 R.b1 u.b2 F.b2 R.b2 ");
  EXPECT_EQ(forward(order_of_a_step(none_at({0, 1, 2}), 1)), forward(order_of_a_step(nothing, 0)));
}

// When backward reaches the first block, the gradients of the last one are being reduced.
TEST(PrefetchLists, MayNameUnitsThatAreDone) {
  const auto nothing = [](ShardedModel&, gpt::GPT&) {};
  const auto lists = [](ShardedModel& sharded, gpt::GPT& model) {
    sharded.set_modules_to_backward_prefetch(*model.blocks()[0], {model.blocks()[2].get()});
  };
  EXPECT_EQ(order_of_a_step(lists), order_of_a_step(nothing));
}

// A unit that is not resharded after forward has one gather less, and the memory of one slot more.
TEST(Resharding, AfterForwardIsSaidOfEachUnit) {
  const auto middle = [](ShardedModel& sharded, gpt::GPT& model) {
    sharded.set_reshard_after_forward(false, model.blocks()[1].get());
  };
  EXPECT_EQ(order_of_a_step(middle),
            "U.root U.b0 F.b0 R.b0 U.b1 F.b1 r.b1 U.b2 F.b2 R.b2 r.root u.root "
            "U.b2 R.b2 RS.b2 u.b1 R.b1 RS.b1 U.b0 R.b0 RS.b0 R.root RS.root ");
  const auto root_too = [](ShardedModel& sharded, gpt::GPT&) {
    sharded.set_reshard_after_forward(true);
  };
  EXPECT_EQ(order_of_a_step(root_too),
            "U.root U.b0 F.b0 R.b0 U.b1 F.b1 R.b1 U.b2 F.b2 R.b2 R.root U.root "
            "U.b2 R.b2 RS.b2 U.b1 R.b1 RS.b1 U.b0 R.b0 RS.b0 R.root RS.root ");
}

// The result of two steps of two micro-steps.
struct Done {
  std::vector<float> record{};
  comm::Traffic traffic{};
  std::int64_t whole = 0;  // bytes of all slots for whole parameters, after the steps
};

Done two_steps(TinyOptions options, const std::function<void(ShardedModel&, gpt::GPT&)>& prepare,
               int ranks = 2) {
  Done done;
  options.steps = options.micro_steps = 2;
  testing::run_ranks(Backend::local, ranks,
                     [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                       TinyTraining training(context, std::move(world), options);
                       prepare(training.sharded, training.model);
                       const std::vector<float> record = training.run();
                       if (context.rank != 0) return;
                       done = {record, training.mesh.traffic(),
                               context.ledger.count(MemoryClass::unsharded_parameters).reserved};
                     });
  return done;
}

// As under shard_grad_op, if it is said of all units: the same bits, gathers and bytes of memory.
TEST(Resharding, AfterNoForwardIsShardGradOp) {
  const auto usual = [](ShardedModel&, gpt::GPT&) {};
  const auto none = [](ShardedModel& sharded, gpt::GPT&) {
    sharded.set_reshard_after_forward(false);
  };
  const Done given = two_steps({}, usual), said = two_steps({}, none);
  const Done named = two_steps({.strategy = ShardingStrategy::shard_grad_op}, usual);
  EXPECT_EQ(said.record, given.record);
  EXPECT_EQ(said.record, named.record);
  EXPECT_EQ(said.traffic, named.traffic);
  EXPECT_EQ(said.whole, named.whole);
  EXPECT_GT(said.whole, given.whole);
}

// The second micro-step of each step gathers nothing for its forward, and the first does.
TEST(Resharding, AfterBackwardEndsWithTheOptimizersStep) {
  const auto usual = [](ShardedModel&, gpt::GPT&) {};
  const auto stays = [](ShardedModel& sharded, gpt::GPT&) {
    sharded.set_reshard_after_forward(false);
    sharded.set_reshard_after_backward(false);
  };
  const Done given = two_steps({}, usual), said = two_steps({}, stays);
  EXPECT_EQ(said.record, given.record);
  EXPECT_EQ(given.traffic.all_gathers, 2 * 2 * (2 * 4 - 1));  // 4 units
  EXPECT_EQ(said.traffic.all_gathers, 2 * 4);
  EXPECT_EQ(said.traffic.reduce_scatters, given.traffic.reduce_scatters);
}

// The blocks of the tiny GPT become units, and so does its position embedding.
bool is_block_or_positions(const nn::Module& module) {
  const auto* embedding = dynamic_cast<const nn::Embedding*>(&module);
  return is_a<gpt::Block>(module) ||
         (embedding != nullptr && embedding->weight()->shape[0] == testing::kTiny.block_size);
}

// The backward of an embedding adds up gradients, and reads no table. Without the control it is
// gathered for that.
TEST(UnshardInBackward, IsNotNeededByAnEmbedding) {
  const auto usual = [](ShardedModel&, gpt::GPT&) {};
  const auto unread = [](ShardedModel& sharded, gpt::GPT&) {
    ASSERT_EQ(sharded.units()[0].name(), "transformer.wpe");
    sharded.set_unshard_in_backward(false, &sharded.units()[0].module());
  };
  for (const LayoutKind layout : testing::kLayouts) {
    for (const BackwardPrefetch prefetch :
         {BackwardPrefetch::none, BackwardPrefetch::pre, BackwardPrefetch::post}) {
      for (const bool recompute : {false, true}) {
        TinyOptions options{.layout = layout, .prefetch = prefetch, .recompute = recompute};
        options.wrap_policy = is_block_or_positions;
        const Done given = two_steps(options, usual), said = two_steps(options, unread);
        EXPECT_EQ(said.record, given.record);
        EXPECT_EQ(given.traffic.all_gathers - said.traffic.all_gathers, 2 * 2);
        EXPECT_EQ(said.traffic.reduce_scatters, given.traffic.reduce_scatters);
      }
    }
  }
}

// A module that reads its parameters in backward finds only its shard, and says so.
TEST(UnshardInBackward, IsNeededByABlock) {
  const auto unread = [](ShardedModel& sharded, gpt::GPT& model) {
    sharded.set_unshard_in_backward(false, model.blocks()[1].get());
  };
  try {
    two_steps({}, unread);
    ADD_FAILURE() << "expected an error";
  } catch (const testing::RankError& error) {
    EXPECT_NE(std::string(error.what()).find("weight: expected float32 [10, 40]"),
              std::string::npos)
        << error.what();
  }
}

TEST(LastMicroStep, IsAsBeforeWhenTheScopeIsOver) {
  testing::run_ranks(
      Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world), {.micro_steps = 2, .no_sync = true});
        const auto reductions = [&] { return training.mesh.traffic().reduce_scatters; };
        const auto backward = [&] {
          Owned<std::int32_t> x = testing::tiny_tokens(0, 0, context.rank, 1, 0);
          training.tape.begin(true, {.seed = 1});
          Owned<float> dy(training.sharded.forward(training.tape, x).shape());
          training.sharded.backward(training.tape, dy);
        };
        {
          const LastMicroStep scope(training.sharded, false);
          backward();
          { const LastMicroStep inner(training.sharded, false); }
          backward();
          EXPECT_EQ(reductions(), 0);
        }
        backward();
        EXPECT_EQ(reductions(), 4);
      });
}

TEST(Controls, AreOfUnits) {
  testing::run_ranks(
      Backend::self, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world), {});
        const nn::Linear stranger({.in = 1, .out = 1});
        ShardedModel& sharded = training.sharded;
        EXPECT_THROW(sharded.set_requires_gradient_sync(false, &stranger), Error);
        EXPECT_THROW(sharded.set_requires_all_reduce(false, &stranger), Error);
        EXPECT_THROW(sharded.set_reshard_after_forward(false, &stranger), Error);
        EXPECT_THROW(sharded.set_reshard_after_backward(false, &stranger), Error);
        EXPECT_THROW(sharded.set_unshard_in_backward(false, &stranger), Error);
        EXPECT_THROW(sharded.set_modules_to_forward_prefetch(stranger, {}), Error);
        EXPECT_THROW(sharded.set_modules_to_backward_prefetch(training.model, {&stranger}), Error);
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp
