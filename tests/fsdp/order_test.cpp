#include <gtest/gtest.h>

#include <string>

#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::kTiny;
using testing::TinyOptions;
using testing::TinyTraining;

// The events of a pass in one line, with blocks as b0 b1 b2.
std::string order(Tracer& tracer) {
  std::string line;
  for (std::string event : tracer.take_order()) {
    const std::string path = "transformer.h.";
    if (const auto at = event.find(path); at != std::string::npos) {
      event.replace(at, path.size(), "b");
    }
    line += (line.empty() ? "" : " ") + event;
  }
  return line;
}

std::string order_of_a_step(const TinyOptions& options, bool first_micro_step = false) {
  std::string line;
  testing::run_ranks(Backend::local, 2,
                     [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), options);
                       training.step(0);
                       if (context.rank == 0) context.tracer.start();
                       if (first_micro_step) {
                         training.sharded.zero_grad();
                         training.micro_step(1, 0);
                       } else {
                         training.step(1);
                       }
                       if (context.rank == 0) line = order(context.tracer);
                     });
  return line;
}

std::string first_micro_step(const TinyOptions& options) { return order_of_a_step(options, true); }

const std::string kForward = "U.root U.b0 F.b0 R.b0 U.b1 F.b1 R.b1 U.b2 F.b2 R.b2 r.root u.root ";

// These are the orders of PyTorch's FSDP, from traces (1.13). The first is FULL_SHARD.
TEST(Order, WithoutPrefetchGathersEachUnitInItsTurn) {
  EXPECT_EQ(order_of_a_step({.prefetch = BackwardPrefetch::none}),
            kForward + "U.b2 R.b2 RS.b2 U.b1 R.b1 RS.b1 U.b0 R.b0 RS.b0 R.root RS.root");
}

TEST(Order, WithPrefetchGathersTheNextUnitBeforeReducingThisOne) {
  EXPECT_EQ(
      order_of_a_step({.prefetch = BackwardPrefetch::pre}),
      kForward + "U.b2 u.b2 U.b1 R.b2 RS.b2 u.b1 U.b0 R.b1 RS.b1 u.b0 R.b0 RS.b0 R.root RS.root");
}

TEST(Order, WithPostPrefetchGathersTheNextUnitAfterFreeingThisOne) {
  EXPECT_EQ(order_of_a_step({.prefetch = BackwardPrefetch::post}),
            kForward + "U.b2 R.b2 U.b1 RS.b2 u.b1 R.b1 U.b0 RS.b1 u.b0 R.b0 RS.b0 R.root RS.root");
}

const std::string kForwardKept = "U.root U.b0 F.b0 r.b0 U.b1 F.b1 r.b1 U.b2 F.b2 r.b2 r.root ";

// Under SHARD_GRAD_OP backward gathers nothing.
TEST(Order, OfShardGradOpKeepsUnitsFromForwardToBackward) {
  EXPECT_EQ(order_of_a_step(
                {.strategy = ShardingStrategy::shard_grad_op, .prefetch = BackwardPrefetch::none}),
            kForwardKept + "u.root u.b2 R.b2 RS.b2 u.b1 R.b1 RS.b1 u.b0 R.b0 RS.b0 R.root RS.root");
}

// Under no_sync only the last micro-step reduces.
TEST(Order, UnderNoSyncReducesNothing) {
  EXPECT_EQ(first_micro_step({.micro_steps = 2, .no_sync = true}),
            kForward + "U.b2 u.b2 U.b1 R.b2 u.b1 U.b0 R.b1 u.b0 R.b0 R.root");
}

// Under SHARD_GRAD_OP nothing is freed, so the next forward gathers nothing.
TEST(Order, OfShardGradOpUnderNoSyncFreesNothing) {
  const TinyOptions options{.strategy = ShardingStrategy::shard_grad_op,
                            .prefetch = BackwardPrefetch::none,
                            .micro_steps = 2,
                            .no_sync = true};
  EXPECT_EQ(first_micro_step(options),
            kForwardKept + "u.root u.b2 r.b2 u.b1 r.b1 u.b0 r.b0 r.root");
  EXPECT_EQ(order_of_a_step(options).substr(first_micro_step(options).size() + 1),
            "u.root u.b0 F.b0 r.b0 u.b1 F.b1 r.b1 u.b2 F.b2 r.b2 r.root "
            "u.root u.b2 R.b2 RS.b2 u.b1 R.b1 RS.b1 u.b0 R.b0 RS.b0 R.root RS.root");
}

// PyTorch has no such order: with forward prefetch, a gather is issued before the unit before it
// computes.
TEST(Order, WithForwardPrefetchGathersAhead) {
  const std::string one = order_of_a_step({.forward_prefetch = 1});
  EXPECT_EQ(one.substr(0, one.find(" r.root")),
            "U.root U.b0 u.b0 U.b1 F.b0 R.b0 u.b1 U.b2 F.b1 R.b1 u.b2 F.b2 R.b2");
  const std::string two = order_of_a_step({.forward_prefetch = 2});
  EXPECT_EQ(two.substr(0, two.find(" r.root")),
            "U.root U.b0 U.b1 u.b0 u.b1 U.b2 F.b0 R.b0 u.b1 u.b2 F.b1 R.b1 u.b2 F.b2 R.b2");
}

// Recompute runs forward again while the unit is unsharded, so it adds no gather and no reshard.
TEST(Order, OfRecomputeIsTheOrderWithout) {
  EXPECT_EQ(order_of_a_step({.recompute = true}), order_of_a_step({}));
}

// If the recomputed module contains units, their forward runs twice. Each unit is reduced when its
// backward is over.
TEST(Order, OfRecomputeAroundUnitsReducesEachInItsTurn) {
  std::string line;
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining training(context, std::move(group), {.prefetch = BackwardPrefetch::none});
        training.model.recompute = true;
        training.step(0);
        if (context.rank == 0) context.tracer.start();
        training.step(1);
        if (context.rank == 0) line = order(context.tracer);
      });
  EXPECT_EQ(line, kForward +
                      "U.b0 F.b0 R.b0 U.b1 F.b1 R.b1 U.b2 F.b2 R.b2 "
                      "U.b2 R.b2 RS.b2 U.b1 R.b1 RS.b1 U.b0 R.b0 RS.b0 R.root RS.root");
}

// A pass that was given up does not change the order of the next pass.
TEST(Order, OfAStepAfterAPassThatWasGivenUp) {
  std::string line;
  testing::run_ranks(Backend::local, 2,
                     [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), {});
                       auto tokens = testing::tiny_tokens(0, 0, 0, 1, 0);
                       training.step(0);
                       training.tape.begin(true);
                       training.sharded.forward(training.tape, tokens);
                       training.tape.end();
                       if (context.rank == 0) context.tracer.start();
                       training.step(1);
                       if (context.rank == 0) line = order(context.tracer);
                     });
  EXPECT_EQ(line, order_of_a_step({}));
}

// If parameters are stored whole, they are gathered after the optimizer has changed them.
TEST(Order, OfWholeParametersGathersOnceAStep) {
  const std::string forward = "U.root U.b0 F.b0 r.b0 U.b1 F.b1 r.b1 U.b2 F.b2 r.b2 r.root ";
  const std::string backward = "u.root u.b2 r.b2 RS.b2 u.b1 r.b1 RS.b1 u.b0 r.b0 RS.b0 r.root";
  for (ShardingStrategy strategy :
       {ShardingStrategy::shard_optimizer, ShardingStrategy::shard_gradients}) {
    EXPECT_EQ(order_of_a_step({.strategy = strategy}), forward + backward + " RS.root");
  }
}

// FSDP2 gathers, discards and reduces in the order of FSDP1. Its layout changes what is copied, and
// not when.
TEST(Order, IsTheSameInAllLayouts) {
  for (const Sharding& sharding : kShardings) {
    for (const BackwardPrefetch prefetch :
         {BackwardPrefetch::none, BackwardPrefetch::pre, BackwardPrefetch::post}) {
      for (const bool no_sync : {false, true}) {
        TinyOptions options{.strategy = sharding.strategy,
                            .prefetch = prefetch,
                            .forward_prefetch = no_sync ? 1 : 0,
                            .micro_steps = 2,
                            .no_sync = no_sync,
                            .shard_size = sharding.replicates ? 1 : 0};
        const std::string flat = order_of_a_step(options);
        for (const LayoutKind other : {LayoutKind::per_parameter, LayoutKind::row_aligned}) {
          options.layout = other;
          EXPECT_EQ(order_of_a_step(options), flat) << sharding.name;
        }
      }
    }
  }
}

// PyTorch keeps the root, and would compute with stale weights the next time. We do not.
TEST(Order, OfAnEvaluationReshardsTheRootToo) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), {});
                       context.tracer.start();
                       auto tokens = testing::tiny_tokens(0, 0, 0, 1, 0);
                       training.tape.begin(false);
                       training.sharded.forward(training.tape, tokens);
                       training.tape.end();
                       EXPECT_EQ(order(context.tracer),
                                 "U.root U.b0 F.b0 R.b0 U.b1 F.b1 R.b1 U.b2 F.b2 R.b2 R.root");
                     });
}

// An evaluation between two micro-steps changes no gradient, and uses the present weights.
TEST(Evaluation, LeavesTrainingAloneAndIsNeverStale) {
  const auto run = [](bool evaluate) {
    return testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          TinyTraining training(context, std::move(group), {.micro_steps = 2});
          std::vector<float> logits;
          for (std::int64_t step = 0; step < 2; ++step) {
            training.sharded.zero_grad();
            training.micro_step(step, 0);
            if (evaluate) {
              auto tokens = testing::tiny_tokens(0, 0, 0, 1, 0);
              training.tape.begin(false);
              logits.push_back(training.sharded.forward(training.tape, tokens).f32()[0]);
              training.tape.end();
            }
            training.micro_step(step, 1);
            training.norm.compute(training.sharded.units(), 1.0);
            training.optimizer.step(1e-2, training.norm.coefficient());
          }
          if (evaluate) {
            EXPECT_NE(logits[0], logits[1]);
          }
          return training.weights();
        });
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace nanofsdp::fsdp
