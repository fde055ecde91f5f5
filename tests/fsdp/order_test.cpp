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

// The events of a pass in one line, blocks as b0 b1 b2.
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

std::string order_of_a_step(const TinyOptions& options) {
  std::string line;
  testing::run_ranks(Backend::local, 2,
                     [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), options);
                       training.step(0);
                       if (context.rank == 0) context.tracer.start();
                       training.step(1);
                       if (context.rank == 0) line = order(context.tracer);
                     });
  return line;
}

const std::string kForward = "U.root U.b0 F.b0 R.b0 U.b1 F.b1 R.b1 U.b2 F.b2 R.b2 r.root u.root ";

// The orders of PyTorch's FSDP (FULL_SHARD, BACKWARD_PRE or none), from its own trace.
TEST(Order, WithoutPrefetchGathersEachUnitInItsTurn) {
  EXPECT_EQ(order_of_a_step({.prefetch = BackwardPrefetch::none}),
            kForward + "U.b2 R.b2 RS.b2 U.b1 R.b1 RS.b1 U.b0 R.b0 RS.b0 R.root RS.root");
}

TEST(Order, WithPrefetchGathersTheNextUnitBeforeReducingThisOne) {
  EXPECT_EQ(
      order_of_a_step({.prefetch = BackwardPrefetch::pre}),
      kForward + "U.b2 u.b2 U.b1 R.b2 RS.b2 u.b1 U.b0 R.b1 RS.b1 u.b0 R.b0 RS.b0 R.root RS.root");
}

// Unlike PyTorch's, which keeps the root and would compute with stale weights next time.
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

// An evaluation between two micro-steps changes no gradient, and sees the weights as they are now.
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
