#include "nn/tape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/check.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "support/tensors.h"
#include "support/whole_model.h"

namespace nanofsdp::nn {
namespace {

using testing::expect_error;

TEST(Tape, RestoresInTheReverseOrderOfSaving) {
  Context context;
  Tape tape(context);
  tape.begin(true);
  const Tensor a = tape.allocate({1}), b = tape.allocate({2}), c = tape.allocate({3});
  tape.save({a, b});
  tape.save({c});
  EXPECT_EQ(tape.restore<1>()[0].numel(), 3);
  const auto [first, second] = tape.restore<2>();
  EXPECT_EQ(first.numel(), 1);
  EXPECT_EQ(second.numel(), 2);
  expect_error<Error>([&] { tape.restore<1>(); }, "none left");
}

TEST(Tape, RestoresAsManyAsWereSaved) {
  Context context;
  Tape tape(context);
  tape.begin(true);
  tape.save({tape.allocate({1}), tape.allocate({1})});
  expect_error<Error>([&] { tape.restore<1>(); }, "to restore 1 tensors");
}

TEST(Tape, RefusesToEndABackwardThatLeftSomething) {
  Context context;
  Tape tape(context);
  tape.begin(true);
  tape.save({tape.allocate({1})});
  expect_error<Error>([&] { tape.end_backward(); }, "1 left");
}

// Otherwise the backward of this pass would restore tensors of the pass before.
TEST(Tape, BeginsNoPassWithinAPass) {
  for (const bool training : {true, false}) {
    Context context;
    Tape tape(context);
    tape.begin(true);
    tape.save({tape.allocate({1})});
    expect_error<Error>([&] { tape.begin(training); }, "1 saved activations");
    tape.end();
    EXPECT_NO_THROW(tape.begin(training));
  }
}

// If a module began a pass on its own tape, this would end the pass that it is part of.
TEST(Tape, BeginsNoPassInsideAModule) {
  Context context;
  Tape tape(context);
  Linear layer({.in = 2, .out = 2});
  testing::WholeModel memory(layer);
  layer.hooks.pre_forward = [](Tape& own) { own.begin(false); };
  auto x = testing::random_tensor({1, 2}, 1);
  tape.begin(false);
  expect_error<Error>([&] { layer.forward(tape, x); }, "1 modules at work");
  layer.hooks = {};
  layer.forward(tape, x);
  tape.end();
}

// The error of a wrong order says which of the two modules lies where.
TEST(Tape, NamesTheOutermostModuleAndAnotherOne) {
  Context context;
  Tape tape(context);
  Linear one({.in = 2, .out = 2}), other({.in = 2, .out = 2});
  testing::WholeModel first(one), second(other);
  auto x = testing::random_tensor({1, 2}, 1);
  tape.begin(true);
  one.forward(tape, x);
  other.forward(tape, x);
  expect_error<Error>([&] { one.backward(tape, x); },
                      "backward of the outermost module: expected to restore 1 tensors of its own, "
                      "got 1 that another module saved last");
  tape.save({x});
  expect_error<Error>([&] { one.backward(tape, x); }, "got 1 that no module saved last");
  expect_error<Error>([&] { tape.restore<2>(); }, "backward of no module");
}

// The tape tells the end of a pass once, with whether its backward is over, to each function that
// still exists.
TEST(Tape, TellsTheEndOfAPass) {
  Context context;
  Tape tape(context);
  std::string ends;
  const auto first = std::make_shared<Tape::EndOfPass>([&](bool b) { ends += b ? "1" : "one "; });
  auto second = std::make_shared<Tape::EndOfPass>([&](bool b) { ends += b ? "2" : "two "; });
  tape.begin(true);
  tape.at_end(first);
  EXPECT_FALSE(tape.knows(second));
  tape.at_end(second);
  EXPECT_TRUE(tape.knows(first) && tape.knows(second));
  tape.end_backward();
  EXPECT_EQ(ends, "12");
  tape.begin(false);
  tape.at_end(first);
  tape.end();
  tape.end();
  EXPECT_EQ(ends, "12one ");
  tape.begin(false);
  tape.at_end(second);
  tape.at_end(first);
  second.reset();
  tape.begin(true);  // no call has ended this evaluation
  EXPECT_EQ(ends, "12one one ");
}

// An error in one of these calls keeps no other from being made, and the tape is ready for the next
// pass.
TEST(Tape, TellsTheEndToAllBehindAnError) {
  Context context;
  Tape tape(context);
  for (const bool backward : {false, true}) {
    std::string told;
    const auto callback = [&](const std::string& name, bool fails) {
      return std::make_shared<Tape::EndOfPass>([&told, name, fails](bool) {
        told += name;
        NANOFSDP_CHECK(!fails, .what = name, .expected = "no error", .got = "one");
      });
    };
    const auto a = callback("a", true), b = callback("b", false), c = callback("c", true);
    tape.begin(true);
    for (const auto& each : {a, b, c}) tape.at_end(each);
    expect_error<Error>([&] { backward ? tape.end_backward() : tape.end(); }, "a: expected");
    EXPECT_EQ(told, "abc");
    EXPECT_FALSE(tape.knows(a));
    tape.begin(true);
    tape.end();
    EXPECT_EQ(told, "abc");
  }
}

// Each pass begins with no memory of the last one, even if no call has ended that.
TEST(Tape, EndsAnEvaluationThatNobodyHasEnded) {
  Context context;
  Tape tape(context);
  KeyValueCache cache(context, 4);
  for (int i = 0; i < 5; ++i) {
    i == 3 ? tape.begin_decoding(cache) : tape.begin(false);
    EXPECT_EQ(tape.cache(), i == 3 ? &cache : nullptr);
    tape.allocate({100});
    const auto held = context.ledger.count(MemoryClass::activations).in_use;
    EXPECT_LE(held, 448) << i;
  }
  tape.begin_decoding(cache);
  tape.end();
  EXPECT_EQ(tape.cache(), nullptr);
}

TEST(Tape, KeepsNothingInAnEvaluation) {
  Context context;
  Tape tape(context);
  tape.begin(false);
  tape.save({tape.allocate({1})});
  expect_error<Error>([&] { tape.restore<1>(); }, "none left");
}

// A pause restores the state before it: it does not switch saving on.
TEST(Tape, SavesAfterAPauseIfItDidBefore) {
  Context context;
  Tape tape(context);
  for (const bool training : {true, false}) {
    tape.begin(training);
    {
      const Tape::Scope outer(tape, /*frees=*/false, /*pauses=*/true);
      { const Tape::Scope inner(tape, /*frees=*/false, /*pauses=*/true); }
      { const Tape::Scope other(tape); }
      EXPECT_FALSE(tape.saving()) << "the outer pause goes on";
      EXPECT_EQ(tape.training(), training);
    }
    EXPECT_EQ(tape.saving(), training);
    tape.end();
  }
}

TEST(Tape, AllocatesOnlyInTheFirstPass) {
  Context context;
  Tape tape(context);
  const auto pass = [&] {
    tape.begin(true);
    for (int i = 0; i < 40; ++i) tape.allocate({1 << 16});
    tape.end();
  };
  pass();
  const std::int64_t allocations = context.ledger.allocations();
  for (int i = 0; i < 3; ++i) pass();
  EXPECT_EQ(context.ledger.allocations(), allocations);
}

// After the first pass its memory is the most that was held at one time, not the sum over scopes.
TEST(Tape, KeepsAsMuchAsWasHeldAtATime) {
  constexpr std::int64_t kElements = 1 << 20;
  Context context;
  Tape tape(context);
  for (int pass = 0; pass < 2; ++pass) {
    tape.begin(true);
    for (int i = 0; i < 8; ++i) {
      const Tape::Scope scope(tape);
      tape.allocate({kElements});
    }
    tape.end();
  }
  EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved, kElements * 4);
}

TEST(Tape, GivesTemporariesBackAtTheEndOfTheirScope) {
  Context context;
  Tape tape(context);
  for (int pass = 0; pass < 2; ++pass) {
    tape.begin(true);
    tape.allocate({16});
    const void* first = nullptr;
    {
      const Tape::Scope scope(tape);
      first = tape.allocate({16}).raw();
    }
    const void* const next = tape.allocate({16}).raw();
    EXPECT_TRUE(pass == 0 || next == first);
    EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved, 128);
    tape.end();
  }
}

// In an evaluation a module may compute one result from the last, as a GPT does from block to
// block.
TEST(Tape, AScopeKeepsOneResultAtATime) {
  Context context;
  Tape tape(context);
  for (int pass = 0; pass < 2; ++pass) {
    tape.begin(false);
    const Address before = tape.allocate({16}).address();
    {
      Tape::Scope scope(tape);
      for (const std::int64_t n : {16, 64, 32, 48}) {
        tape.allocate({1000});
        const Tensor result = tape.allocate({n});
        std::ranges::fill(result.span<float>(), static_cast<float>(n));
        const Tensor kept = scope.keep(result);
        for (const float x : kept.span<float>()) EXPECT_EQ(x, n);
        if (pass > 0) {
          EXPECT_EQ(kept.address(), before + 64) << "the result before it was freed";
        }
      }
    }
    EXPECT_TRUE(pass == 0 || tape.allocate({16}).address() == before + 64 + 48 * 4);
    tape.end();
  }
}

// The block of an evaluation would be too small for a training pass, and would take memory beside
// it.
TEST(Tape, TakesNoMoreInATrainingPassForAnEvaluationBefore) {
  Context context;
  Tape tape(context);
  for (const bool training : {false, false, true, false}) {
    tape.begin(training);
    for (int i = 0; i < (training ? 5 : 3); ++i) tape.allocate({1000});
    tape.end();
  }
  EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved_peak, 5 * 4032);
  EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved, 5 * 4032);
  tape.release();
  EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved, 0);
}

}  // namespace
}  // namespace nanofsdp::nn
