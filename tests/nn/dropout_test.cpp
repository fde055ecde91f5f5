#include "nn/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/elementwise.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::nn {
namespace {

using testing::expect_error;

constexpr int kElements = 64;
using Mask = std::string;

// The elements that survive, one character each.
Mask mask_of(const Tensor& y) {
  Mask mask;
  for (const float x : y.span<float>()) mask += x == 0 ? '.' : '#';
  return mask;
}

// Calls its parts one after the other, and records which elements each part lets through, in
// forward and in backward. A part may occur more than once, and may be another chain.
class Chain final : public Module {
 public:
  std::vector<Module*> parts;
  std::vector<Mask> forward_masks, backward_masks;

 private:
  Tensor do_forward(Tape& tape, Tensor x) override {
    forward_masks.clear();
    backward_masks.clear();
    const Tensor y = tape.allocate(x.shape());
    ops::fill(tape.stream(), {.x = y, .value = 0});
    for (Module* part : parts) {
      const Tensor z = part->forward(tape, x);
      forward_masks.push_back(mask_of(z));
      ops::accumulate(tape.stream(), {.in = z, .out = y});
    }
    return y;
  }
  Tensor do_backward(Tape& tape, Tensor dy) override {
    const Tensor dx = tape.allocate(dy.shape());
    ops::fill(tape.stream(), {.x = dx, .value = 0});
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const Tensor dz = (*part)->backward(tape, dy);
      backward_masks.insert(backward_masks.begin(), mask_of(dz));
      ops::accumulate(tape.stream(), {.in = dz, .out = dx});
    }
    return dx;
  }
};

testing::Owned<float> ones() { return testing::Owned<float>({2, kElements / 2}, 1.0F); }

void pass(Tape& tape, Module& module) {
  testing::Owned<float> x = ones(), dy = ones();
  tape.begin(true);
  module.forward(tape, x);
  module.backward(tape, dy);
  tape.end_backward();
}

// In passes without a key, no two masks are the same: not for two modules of the same kind, for two
// calls of a module, for several passes and tapes, or for several ranks. Backward has the masks of
// forward.
TEST(Dropout, IsFreshForEveryCallPassTapeAndRank) {
  std::set<Mask> all;
  for (const int rank : {0, 1, 2}) {
    Context context(rank, 3);
    for (int tapes = 0; tapes < 2; ++tapes) {
      Tape tape(context);
      Dropout first(0.5F), second(0.5F);
      Chain chain;
      chain.parts = {&first, &second, &first};
      for (int step = 0; step < 3; ++step) {
        pass(tape, chain);
        EXPECT_EQ(chain.backward_masks, chain.forward_masks);
        all.insert(chain.forward_masks.begin(), chain.forward_masks.end());
      }
    }
  }
  EXPECT_EQ(all.size(), 3U * 2 * 3 * 3);
}

// With the same seed, the same program draws the same masks again.
TEST(Dropout, IsTheSameInTheNextRunOfTheProgram) {
  const auto run = [](std::uint64_t seed) {
    Context context;
    Tape tape(context, seed);
    Dropout dropout(0.5F);
    Chain chain;
    chain.parts = {&dropout};
    pass(tape, chain);
    return chain.forward_masks;
  };
  EXPECT_EQ(run(0), run(0));
  EXPECT_NE(run(0), run(1));
}

// If the caller names rows and micro-step, the masks are those of that name.
TEST(Dropout, HasTheMasksOfItsKey) {
  Context context;
  Tape tape(context);
  Dropout dropout(0.5F);
  testing::Owned<float> x = ones();
  std::set<Mask> all;
  for (int again = 0; again < 2; ++again) {
    for (int iteration = 0; iteration < 3; ++iteration) {
      tape.begin(true, DropoutKey{.seed = 1, .iteration = iteration});
      all.insert(mask_of(dropout.forward(tape, x)));
      all.insert(mask_of(dropout.forward(tape, x)));
      tape.end();
    }
  }
  EXPECT_EQ(all.size(), 6U);
}

TEST(Dropout, IsTheIdentityInAnEvaluationAndWithoutAProbability) {
  Context context;
  Tape tape(context);
  testing::Owned<float> x = ones();
  for (const bool training : {true, false}) {
    Dropout dropout(training ? 0 : 0.5F);
    tape.begin(training);
    EXPECT_EQ(dropout.forward(tape, x).raw(), Tensor(x).raw());
    tape.end();
  }
}

// Only the module that drew a mask can restore it, and only in reverse order.
TEST(Dropout, IsRedrawnInTheReverseOrderOnly) {
  Context context;
  Tape tape(context);
  Dropout first(0.5F), second(0.5F);
  testing::Owned<float> x = ones(), dy = ones();
  tape.begin(true);
  first.forward(tape, x);
  second.forward(tape, x);
  expect_error<Error>([&] { first.backward(tape, dy); }, "reverse order of forward");
  tape.end();
}

// These are random trees of chains and dropouts, and any chain may recompute. A module that is
// computed again has the masks of its first forward, which are those of a tree that keeps
// everything.
TEST(Dropout, IsTheSameWhereItIsComputedAgain) {
  std::minstd_rand random(7);
  for (int tree = 0; tree < 200; ++tree) {
    std::deque<Dropout> leaves;
    std::deque<Chain> chains;
    for (int i = 0; i < 4; ++i) leaves.emplace_back(0.5F);
    for (int i = 0; i < 5; ++i) {
      Chain& chain = chains.emplace_back();
      const auto parts = 1 + random() % 3;
      for (unsigned part = 0; part < parts; ++part) {
        const bool leaf = i == 0 || random() % 2 == 0;
        leaf ? chain.parts.push_back(&leaves[random() % 4])
             : chain.parts.push_back(&chains[random() % static_cast<unsigned>(i)]);
      }
    }
    const auto seen = [&](bool recomputes) {
      for (Chain& chain : chains) chain.recompute = recomputes && random() % 2 == 0;
      Context context;
      Tape tape(context, static_cast<std::uint64_t>(tree));
      testing::Owned<float> x = ones(), dy = ones();
      tape.begin(true);
      const std::span<float> y = chains.back().forward(tape, x).span<float>();
      std::vector<float> values(y.begin(), y.end());
      const std::span<float> dx = chains.back().backward(tape, dy).span<float>();
      values.insert(values.end(), dx.begin(), dx.end());
      tape.end_backward();
      return values;
    };
    const std::vector<float> kept = seen(false);
    for (int again = 0; again < 3; ++again) ASSERT_EQ(seen(true), kept) << "tree " << tree;
  }
}

}  // namespace
}  // namespace nanofsdp::nn
