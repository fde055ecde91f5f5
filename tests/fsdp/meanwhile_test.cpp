#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "support/caller.h"
#include "support/errors.h"

// Tests what a caller may do to a model that is in use: visitors that throw, and other passes and
// looks between a forward and its backward, and inside of them.

namespace nanofsdp::fsdp::meanwhile_test {
namespace {

using testing::Caller;
using testing::CallerOptions;
using testing::for_all_shardings;
using testing::run_callers;

// The weights after two steps. `meanwhile` is called between them.
std::vector<std::vector<float>> weights_after(const CallerOptions& options,
                                              const std::function<void(Caller&)>& meanwhile) {
  return run_callers(options, [&](Caller& c) {
    for (int step = 0; step < 2; ++step) {
      c.sharded.zero_grad();
      c.pass();
      c.step();
      if (step == 0) meanwhile(c);
    }
    return c.weights();
  });
}

// A visitor may throw at any parameter. Then the model trains on as if there had been no visitor,
// and shows its shards. This also holds when units compute with rounded parameters and the
// visitor's copy is gathered apart.
TEST(Summon, LeavesAModelThatTrainsOnWhenAVisitorThrows) {
  for_all_shardings([](CallerOptions options) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      options.precision.param_dtype = dtype;
      const auto expected = weights_after(options, [](Caller&) {});
      for (int at = 0; at < 4; ++at) {
        const auto throws = [&](Caller& c) {
          const void* shown = c.model.named_parameters()[0]->data.raw();
          int visited = 0;
          const auto visit = [&](const nn::Parameter&) {
            if (visited++ == at) throw std::runtime_error("the disk is full");
          };
          EXPECT_THROW(c.sharded.summon_full_parameters(visit), std::runtime_error);
          EXPECT_EQ(visited, at + 1);
          for (const Unit& unit : c.sharded.units()) unit.require_at_rest("the next pass");
          const auto bytes = c.context.ledger.count(MemoryClass::unsharded_parameters).in_use;
          c.weights();
          EXPECT_EQ(c.context.ledger.count(MemoryClass::unsharded_parameters).in_use, bytes);
          EXPECT_EQ(c.model.named_parameters()[0]->data.raw(), shown);
        };
        EXPECT_EQ(weights_after(options, throws), expected) << at;
      }
    }
  });
}

// While a forward or a backward runs, its units are in use. Another pass or a look is refused by
// name, and the running pass is not harmed. Between forward and backward both are allowed.
TEST(Meanwhile, IsBetweenForwardAndBackwardAndNotInside) {
  for_all_shardings([](const CallerOptions& options) {
    const auto run = [&](bool meddles) {
      return run_callers(options, [&](Caller& c) {
        nn::Tape other(c.context);
        testing::Owned<float> z = testing::random_tensor({1, testing::kCallerWidth}, 9);
        const auto evaluate = [&] {
          other.begin(false);
          c.sharded.forward(other, z);
          other.end();
        };
        const auto meddle = [&](nn::Tape& tape) {
          if (&tape == &other) return;
          testing::expect_error<Error>(evaluate, "unit");
          testing::expect_error<Error>([&] { c.weights(); }, "summon_full_parameters");
        };
        if (meddles) c.model.first.hooks = {.post_forward = meddle, .pre_backward = meddle};
        testing::Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3), dy = x;
        c.sharded.zero_grad();
        c.tape.begin(true);
        c.sharded.forward(c.tape, x);
        if (meddles) {
          evaluate();
          c.weights();
          evaluate();
        }
        c.sharded.backward(c.tape, dy);
        c.step();
        return c.weights();
      });
    };
    EXPECT_EQ(run(true), run(false));
  });
}

// An evaluation on another tape begins between a forward and its backward. Whenever it ends, and
// also if only the beginning of the next one ends it, the gradients of all micro-steps stay.
TEST(Meanwhile, AnEvaluationChangesNothingWheneverItEnds) {
  enum class End { none, before_backward, after_backward, next };
  for_all_shardings([](const CallerOptions& options) {
    const auto run = [&](End end) {
      return run_callers(options, [&](Caller& c) {
        nn::Tape other(c.context);
        testing::Owned<float> z = testing::random_tensor({1, testing::kCallerWidth}, 9);
        c.sharded.zero_grad();
        for (int micro = 0; micro < 2; ++micro) {
          c.sharded.set_requires_gradient_sync(micro == 1);
          testing::Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3 + micro);
          testing::Owned<float> dy = x;
          c.tape.begin(true);
          c.sharded.forward(c.tape, x);
          if (end != End::none) {
            other.begin(false);
            c.sharded.forward(other, z);
          }
          if (end == End::before_backward) other.end();
          c.sharded.backward(c.tape, dy);
          if (end == End::after_backward) other.end();
        }
        c.step();
        if (end == End::next) other.end();
        std::vector<float> all = c.weights();
        all.push_back(c.norm());
        return all;
      });
    };
    const auto expected = run(End::none);
    for (const End end : {End::before_backward, End::after_backward, End::next})
      EXPECT_EQ(run(end), expected) << static_cast<int>(end);
  });
}

// A pass that is refused inside another one leaves nothing behind, though its tape is gone.
TEST(Meanwhile, ARefusedPassMayLoseItsTape) {
  for_all_shardings([](const CallerOptions& options) {
    run_callers(options, [&](Caller& c) {
      c.model.first.hooks.post_forward.add([&](nn::Tape& tape) {
        if (&tape == &c.tape) c.evaluate_on_another_tape();
      });
      testing::Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3);
      c.tape.begin(true);
      testing::expect_error<Error>([&] { c.sharded.forward(c.tape, x); }, "a pass on another tape");
      c.tape.end();
      c.model.first.hooks.post_forward = {};
      c.sharded.zero_grad();
      c.pass();
      c.step();
    });
  });
}

// An evaluation on another tape begins before a pass, or between its two forwards. It ends between
// the two backwards, or in a module's backward, and that changes nothing.
TEST(Meanwhile, AnEvaluationMayEndAnywhereInABackward) {
  enum class At { never, first, second };
  for_all_shardings([](const CallerOptions& options) {
    const auto run = [&](At begins, At ends) {
      return run_callers(options, [&](Caller& c) {
        nn::Tape other(c.context);
        testing::Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3), dx = x;
        testing::Owned<float> y = testing::random_tensor({3, testing::kCallerWidth}, 4), dy = y;
        testing::Owned<float> z = testing::random_tensor({1, testing::kCallerWidth}, 9);
        const auto evaluate = [&] { other.begin(false), c.sharded.forward(other, z); };
        const auto end = [&](nn::Tape&) {
          if (ends == At::second) other.end();
        };
        c.model.first.hooks.post_backward.add(end);
        c.sharded.zero_grad();
        if (begins == At::first) evaluate();
        c.tape.begin(true);
        c.sharded.forward(c.tape, x);
        if (begins == At::second) evaluate();
        c.sharded.forward(c.tape, y);
        c.model.backward(c.tape, dy);
        if (ends == At::first) other.end();
        c.model.backward(c.tape, dx);
        c.tape.end_backward();
        c.step();
        std::vector<float> all = c.weights();
        all.push_back(c.norm());
        return all;
      });
    };
    const auto expected = run(At::never, At::never);
    for (const At begins : {At::first, At::second})
      for (const At ends : {At::first, At::second}) EXPECT_EQ(run(begins, ends), expected);
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::meanwhile_test
