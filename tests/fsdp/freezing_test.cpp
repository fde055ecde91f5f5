#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/caller.h"
#include "support/errors.h"

// Tests requires_grad and dtype, changed after a model was sharded.

namespace nanofsdp::fsdp::freezing_test {
namespace {

using testing::Caller;
using testing::CallerOptions;
using testing::for_all_shardings;
using testing::run_callers;

using Model = testing::InTurn<testing::CallerLayer>;
using Weights = std::map<std::string, std::vector<float>>;

Weights weights(Caller& c) {
  Weights all;
  c.sharded.summon_full_parameters([&](const nn::Parameter& p) {
    const std::span<float> values = p.data.span<float>();
    all[p.name] = {values.begin(), values.end()};
  });
  return all;
}

void set_trains(Model& model, const std::vector<std::size_t>& which, bool trains) {
  for (const std::size_t i : which) model.named_parameters()[i]->requires_grad = trains;
}

// Norms and weights of two steps in which the parameters `which` are frozen, if they were not
// frozen before.
std::vector<float> train(Caller& c, const std::vector<std::size_t>& which, bool to_none) {
  std::vector<float> record;
  for (int step = 0; step < 2; ++step) {
    set_trains(c.model, which, false);
    c.sharded.zero_grad(to_none);
    c.pass(false);
    c.pass();
    c.step();
    record.push_back(c.norm());
  }
  for (const auto& [name, values] : weights(c)) {
    record.insert(record.end(), values.begin(), values.end());
  }
  return record;
}

// A parameter that is frozen late gives the same norms and the same weights as one that is frozen
// early.
TEST(FrozenLate, IsAsFrozenEarly) {
  for (const std::vector<std::size_t>& which :
       {std::vector<std::size_t>{0}, {1}, {2}, {1, 2}, {0, 1}, {0, 1, 2, 3}}) {
    for_all_shardings([&](CallerOptions options) {
      for (const bool no_sync : {false, true}) {
        options.no_sync = no_sync;
        const auto late = run_callers(options, [&](Caller& c) { return train(c, which, true); });
        const auto early = run_callers(
            options, [&](Caller& c) { return train(c, which, true); },
            [&](Model& model) { set_trains(model, which, false); });
        const auto kept = run_callers(options, [&](Caller& c) { return train(c, which, false); });
        EXPECT_EQ(kept, late) << "zeros are no gradients of what is frozen";
        ASSERT_EQ(late[0].size(), early[0].size());
        for (std::size_t i = 0; i < late[0].size(); ++i) {
          // Frozen parameters without a row of their own move the cuts of the shards. So the norms,
          // which are the first two numbers, are added up in another order.
          EXPECT_NEAR(late[0][i], early[0][i], i < 2 ? 1e-6 : 0) << i;
        }
      }
    });
  }
}

// Parameters are frozen between two steps, do not change by a bit, and train again later. Their
// moments and their count of steps do not change either.
TEST(FrozenLate, StandsStillAndGoesOn) {
  for_all_shardings([](CallerOptions options) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      options.precision.param_dtype = dtype;
      run_callers(options, [](Caller& c) {
        const auto step = [&] {
          c.sharded.zero_grad();
          c.pass();
          c.step();
        };
        step();
        nn::Parameter& weight = *c.model.named_parameters()[2];
        const Weights before = weights(c);
        const std::vector<std::int64_t> steps(c.optimizer.parameter_steps(1).begin(),
                                              c.optimizer.parameter_steps(1).end());
        weight.requires_grad = false;
        for (int i = 0; i < 3; ++i) step();
        Weights after = weights(c);
        for (const auto& [name, values] : before) {
          EXPECT_EQ(values == after[name], name == weight.name) << name;
        }
        EXPECT_EQ(c.optimizer.parameter_steps(1)[0], steps[0]);
        EXPECT_TRUE(weight.grad().empty());
        weight.requires_grad = true;
        step();
        Weights thawed = weights(c);
        EXPECT_NE(thawed[weight.name], after[weight.name]);
        EXPECT_EQ(c.optimizer.parameter_steps(1)[0], steps[0] + (steps[0] > 0));
      });
    }
  });
}

// If an optimizer is made while a parameter is frozen, it still has state for the parameter when
// that trains again.
TEST(FrozenLate, MayBeFrozenWhenTheOptimizerIsMade) {
  for_all_shardings([](const CallerOptions& options) {
    const auto run = [&](bool early) {
      return run_callers(options, [&](Caller& c) {
        AdamW first(c.context, c.sharded.units(), {});
        c.model.named_parameters()[0]->requires_grad = false;
        AdamW second(c.context, c.sharded.units(), {});
        for (const bool trains : {false, true}) {
          c.model.named_parameters()[0]->requires_grad = trains;
          c.sharded.zero_grad();
          c.pass();
          (early ? first : second).step(0.1);
        }
        return c.weights();
      });
    };
    EXPECT_EQ(run(true), run(false));
  });
}

// Parameters are frozen between forward and backward, and between two micro-steps. Backward uses
// the value of requires_grad at the time when it reaches the unit. A gradient from before stays, as
// in PyTorch.
TEST(FrozenLate, CountsFromTheNextBackward) {
  for_all_shardings([](CallerOptions options) {
    for (const bool no_sync : {false, true}) {
      options.no_sync = no_sync;
      run_callers(options, [](Caller& c) {
        nn::Parameter& weight = *c.model.named_parameters()[0];
        testing::Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3), dy = x;
        const Weights before = weights(c);
        c.sharded.zero_grad();
        c.tape.begin(true);
        c.sharded.forward(c.tape, x);
        weight.requires_grad = false;
        c.sharded.backward(c.tape, dy);
        c.step();
        EXPECT_EQ(weights(c)[weight.name], before.at(weight.name)) << "frozen after forward";
        weight.requires_grad = true;
        c.sharded.zero_grad();
        c.pass(false);
        weight.requires_grad = false;
        c.pass();
        c.step();
        EXPECT_NE(weights(c)[weight.name], before.at(weight.name)) << "frozen after a micro-step";
      });
    }
  });
}

// A discriminator trains, is frozen, and lets the gradients of a generator through: its own stay as
// its step has left them, whether zero_grad forgets them before that or not.
TEST(FrozenLate, LetsGradientsThroughWithoutZeroGrad) {
  for_all_shardings([](CallerOptions options) {
    for (const bool no_sync : {false, true}) {
      options.no_sync = no_sync;
      run_callers(options, [](Caller& c) {
        c.sharded.zero_grad();
        c.pass();
        c.step();
        const std::vector<float> gradients = c.gradients();
        const float norm = c.norm();
        const Weights before = weights(c);
        const auto used = [&] {
          return c.context.ledger.count(MemoryClass::unsharded_gradients).in_use;
        };
        const std::int64_t used_before = used();
        set_trains(c.model, {0, 1, 2, 3}, false);
        for (const bool last : {false, true}) c.pass(last);
        EXPECT_EQ(c.gradients(), gradients);
        EXPECT_EQ(used(), used_before);
        c.sharded.clip(0);
        EXPECT_EQ(c.norm(), norm);
        EXPECT_EQ(weights(c), before);
        set_trains(c.model, {0, 1, 2, 3}, true);
        c.sharded.zero_grad();
        c.pass();
        c.step();
        EXPECT_NE(weights(c), before);
      });
    }
  });
}

// A parameter that was frozen when it was sharded has no memory for a gradient. To make it train is
// an error in forward that names it, under every strategy, for each parameter of a unit.
TEST(Thawing, OfWhatWasShardedFrozenIsRefusedByName) {
  for (const std::vector<std::size_t>& which : {std::vector<std::size_t>{1}, {2}, {0, 1}}) {
    for_all_shardings([&](const CallerOptions& options) {
      run_callers(
          options,
          [&](Caller& c) {
            set_trains(c.model, which, true);
            const std::string name = c.model.named_parameters()[which[0]]->name;
            testing::expect_error<Error>([&] { c.pass(); }, name);
            c.tape.end();
            testing::expect_error<Error>([&] { c.evaluate(); }, "frozen");
            c.tape.end();
            set_trains(c.model, which, false);
            c.sharded.zero_grad();
            c.pass();
            c.step();
          },
          [&](Model& model) { set_trains(model, which, false); });
    });
  }
}

TEST(Dtype, IsNotChangedAfterSharding) {
  for_all_shardings([](const CallerOptions& options) {
    run_callers(
        options,
        [](Caller& c) {
          nn::Parameter& frozen = *c.model.named_parameters()[0];
          frozen.dtype = DType::bfloat16;
          testing::expect_error<Error>([&] { c.pass(); }, "first.linear.weight");
          c.tape.end();
          frozen.dtype = DType::float32;
          c.pass();
          c.model.named_parameters()[1]->dtype = DType::bfloat16;
          testing::expect_error<Error>([&] { c.evaluate(); }, "got bfloat16");
          c.tape.end();
        },
        [](Model& model) { set_trains(model, {0}, false); });
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::freezing_test
