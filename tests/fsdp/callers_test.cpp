#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/elementwise.h"
#include "support/caller.h"
#include "support/errors.h"

// Tests the engine under a caller that is not the trainer, with every order of calls that users of
// FSDP2 write.

namespace nanofsdp::fsdp::callers_test {
namespace {

using testing::Caller;
using testing::CallerOptions;
using testing::for_all_shardings;
using testing::run_callers;

// Calls between two micro-steps that must not change a gradient.
const std::vector<std::pair<std::string, std::function<void(Caller&)>>> kNoBackward = {
    {"an evaluation", [](Caller& c) { c.evaluate(); }},
    {"a forward pass of training that is given up",
     [](Caller& c) {
       testing::Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3);
       c.tape.begin(true);
       c.sharded.forward(c.tape, x);
       c.tape.end();
     }},
    {"a look at all weights", [](Caller& c) { c.weights(); }},
    {"an empty pass", [](Caller& c) { c.tape.begin(true), c.tape.end(); }},
};

// Gradients add up whole, by FSDP2's switch or by the option, or in shards.
TEST(Gradients, StayThroughAPassWithoutBackward) {
  for_all_shardings([](CallerOptions options) {
    for (const std::string how : {"switch", "option", "shards"}) {
      options.no_sync = how == "option";
      const auto run = [&](const std::function<void(Caller&)>& between) {
        return run_callers(options, [&](Caller& c) {
          c.sharded.zero_grad();
          for (const bool last : {false, false, true}) {
            c.sharded.set_requires_gradient_sync(how != "switch" || last);
            between(c);
            c.pass(last);
          }
          between(c);
          return c.gradients();
        });
      };
      const auto expected = run([](Caller&) {});
      for (const auto& [name, between] : kNoBackward) {
        EXPECT_EQ(run(between), expected) << name << ", " << how;
      }
    }
  });
}

// Without a backward there is no gradient, so neither the weights nor the optimizer change by a
// bit.
TEST(Step, WithoutABackwardChangesNothing) {
  for_all_shardings([](const CallerOptions& options) {
    run_callers(options, [&](Caller& c) {
      const std::vector<float> first = c.weights();
      c.step();  // there never was a gradient
      EXPECT_EQ(c.weights(), first);
      c.sharded.zero_grad();
      c.pass();
      c.step();
      const std::vector<float> trained = c.weights();
      EXPECT_NE(trained, first);
      c.sharded.zero_grad();
      c.sharded.zero_grad();
      c.step();
      c.evaluate();
      c.step();
      EXPECT_EQ(c.weights(), trained);
      EXPECT_EQ(c.norm(), 0);
      for (const std::int64_t steps : c.optimizer.parameter_steps(0)) EXPECT_LE(steps, 1);
      EXPECT_EQ(c.optimizer.steps(), 4);
    });
  });
}

// As in PyTorch, a second step uses the same gradients.
TEST(Step, AfterAStepUsesTheSameGradients) {
  for_all_shardings([](const CallerOptions& options) {
    run_callers(options, [](Caller& c) {
      c.sharded.zero_grad();
      c.pass();
      c.step();
      const float norm = c.norm();
      const std::vector<float> once = c.weights();
      c.step();
      EXPECT_EQ(c.norm(), norm);
      EXPECT_NE(c.weights(), once);
    });
  });
}

// A gradient that is not reduced does not exist yet, under every strategy. A step changes nothing,
// and the norm is 0. Later the gradient is reduced together with newer ones, or it is forgotten.
TEST(Step, LeavesOutWhatIsNotReducedYet) {
  for_all_shardings([](CallerOptions options) {
    for (const bool by_switch : {true, false}) {
      options.no_sync = !by_switch;
      const auto run = [&](bool steps) {
        return run_callers(options, [&](Caller& c) {
          const std::vector<float> first = c.weights();
          c.sharded.zero_grad();
          c.sharded.set_requires_gradient_sync(!by_switch);
          c.pass(/*last=*/by_switch);
          if (steps) {
            c.step();
            EXPECT_EQ(c.norm(), 0);
            EXPECT_EQ(c.weights(), first);
          }
          c.sharded.set_requires_gradient_sync(true);
          c.pass();
          c.step();
          EXPECT_NE(c.weights(), first);
          std::vector<float> all = c.weights();
          all.push_back(c.norm());
          return all;
        });
      };
      EXPECT_EQ(run(true), run(false));
    }
  });
}

// FSDP2's switch for one unit is used also in the last micro-step. Gradients that were reduced
// before count, summed over all ranks, and the others stay for later.
TEST(GradientSync, OfOneUnitIsOffInAnyMicroStep) {
  for_all_shardings([](const CallerOptions& options) {
    // All gradients of a step are reduced together.
    if (!sharding_of(options.strategy).gradients) return;
    const auto run = [&](bool off_in_the_end) {
      return run_callers(options, [&](Caller& c) {
        c.sharded.zero_grad();
        c.pass(/*last=*/!off_in_the_end);
        if (off_in_the_end) {
          c.sharded.set_requires_gradient_sync(false, &c.model.first);
          c.sharded.set_requires_gradient_sync(false, &c.model.second);
          c.pass();
        }
        c.step();
        std::vector<float> all = c.weights();
        all.push_back(c.norm());
        c.sharded.zero_grad();
        return all;
      });
    };
    EXPECT_EQ(run(true), run(false));
  });
}

// A step in the middle of a pass is refused before it has changed anything.
TEST(Step, InTheMiddleOfAPassChangesNothing) {
  for_all_shardings([](const CallerOptions& options) {
    run_callers(options, [](Caller& c) {
      c.sharded.zero_grad();
      c.pass();
      const std::vector<float> before = c.weights(), gradients = c.gradients();
      c.model.second.hooks.post_forward = [&](nn::Tape&) {
        testing::expect_error<Error>([&] { c.optimizer.step(1, {}); }, "root");
        testing::expect_error<Error>([&] { c.sharded.zero_grad(); }, "root");
      };
      c.evaluate();
      EXPECT_EQ(c.weights(), before);
      EXPECT_EQ(c.gradients(), gradients);
      EXPECT_EQ(c.optimizer.steps(), 0);
    });
  });
}

// After such a step, backward would compute with new weights on old activations. zero_grad is
// allowed, and the pass goes on.
TEST(Step, BetweenAForwardAndItsBackwardIsRefused) {
  for_all_shardings([](const CallerOptions& options) {
    const auto run = [&](bool meddles) {
      return run_callers(options, [&](Caller& c) {
        testing::Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3), dy = x;
        c.pass();
        c.step();
        if (!meddles) c.sharded.zero_grad();
        c.tape.begin(true);
        c.sharded.forward(c.tape, x);
        if (meddles) {
          testing::expect_error<Error>([&] { c.optimizer.step(1, {}); }, "1 to come");
          c.evaluate_on_another_tape();
          testing::expect_error<Error>([&] { c.optimizer.step(1, {}); }, "unit first");
          c.sharded.zero_grad();
        }
        c.sharded.backward(c.tape, dy);
        c.step();
        return c.weights();
      });
    };
    EXPECT_EQ(run(true), run(false));
  });
}

// An optimizer may throw on the ranks that have elements of a parameter, in the middle of its step.
// The updates before that are then seen and used on all ranks. Only whole updates are counted.
TEST(Step, ThatThrowsLeavesAllRanksTheSameValues) {
  struct Throws final : ShardedOptimizer {
    Throws(Context& context, std::span<Unit> units) : ShardedOptimizer(context, units, {}) {}
    void update(Stream& stream, const Update& u) override {
      if (u.parameter.name.starts_with("second")) throw std::runtime_error("no learning rate");
      ops::fill(stream, {.x = u.values, .value = 0.25F});
    }
  };
  for_all_shardings([](const CallerOptions& options) {
    const auto all = run_callers(options, [&](Caller& c) {
      c.evaluate();  // some strategies keep the whole copy
      c.sharded.zero_grad();
      c.pass();
      Throws optimizer(c.context, c.sharded.units());
      const ShardedParameters& second = c.sharded.units()[1].rows()[0];
      if (second.owned(0).in_shard.empty() && second.owned(1).in_shard.empty()) {
        optimizer.step(0.1);  // this rank has padding only, and nothing to throw at
      } else {
        EXPECT_THROW(optimizer.step(0.1), std::runtime_error);
        EXPECT_EQ(optimizer.steps(), 0);
      }
      for (const std::int64_t steps : optimizer.parameter_steps(1)) EXPECT_EQ(steps, 0);
      std::vector<float> all = c.weights();
      EXPECT_GT(std::ranges::count(all, 0.25F), 0);
      for (const float y : c.evaluate()) all.push_back(y);
      return all;
    });
    for (const auto& of_rank : all) EXPECT_EQ(of_rank, all[0]);
  });
}

TEST(Clip, LimitsNothingWithoutAPositiveLimit) {
  run_callers({}, [](Caller& c) {
    c.sharded.zero_grad();
    c.pass();
    for (const double none : {0.0, -1e-9, -1.0}) EXPECT_EQ(*c.sharded.clip(none).f32(), 1) << none;
    EXPECT_GT(c.norm(), 1e-9);
    EXPECT_LT(*c.sharded.clip(1e-9).f32(), 1);
  });
}

// A backward without a forward is an error of the tape, and does not harm the model.
TEST(Backward, CalledTwiceIsAnErrorAfterWhichTheModelTrainsOn) {
  for_all_shardings([](const CallerOptions& options) {
    const auto run = [&](bool twice) {
      return run_callers(options, [&](Caller& c) {
        c.pass();
        c.step();
        if (twice) {
          testing::Owned<float> dy = testing::random_tensor({2, testing::kCallerWidth}, 3);
          testing::expect_error<Error>([&] { c.sharded.backward(c.tape, dy); }, "backward");
          c.tape.end();
        }
        c.sharded.zero_grad();
        c.pass();
        c.step();
        return c.weights();
      });
    };
    EXPECT_EQ(run(true), run(false));
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::callers_test
