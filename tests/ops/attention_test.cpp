#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ops/attention_oracle.h"
#include "support/errors.h"

namespace nanofsdp::ops::attention_test {
namespace {

using namespace attention_oracle;
using testing::finite_differences;
using testing::relative_l2;

void expect_same_bits(const Operands& a, const Operands& b) {
  EXPECT_EQ(a.y.values, b.y.values);
  EXPECT_EQ(a.lse.values, b.lse.values);
  EXPECT_EQ(a.dqkv.values, b.dqkv.values);
}

TEST(Attention, EqualsTheOracle) {
  for (const Sizes& s : kSizes) {
    for (const float dropout : {0.0f, 0.3f}) {
      SCOPED_TRACE(name(s, dropout));
      Operands o(s, 1, dropout);
      const Operands before(s);
      o.run();
      const Oracle want(s, before.qkv.doubles(), dropout, before.dy.doubles());
      EXPECT_LE(relative_l2(o.y.values, want.y), kTolerance);
      EXPECT_LE(relative_l2(o.lse.values, want.lse), kTolerance);
      EXPECT_LE(relative_l2(o.dqkv.values, want.dqkv), kTolerance);
      EXPECT_EQ(o.qkv.values, before.qkv.values);
      EXPECT_EQ(o.dy.values, before.dy.values);
    }
  }
}

// This tests the oracle itself: its backward is the derivative of its forward.
TEST(Attention, BackwardIsTheDerivative) {
  for (const auto& [s, dropout] : std::vector<std::pair<Sizes, float>>{{{2, 4, 6, 2}, 0},
                                                                       {{2, 4, 6, 2}, 0.3f},
                                                                       {{1, 4, 8, 4, 2}, 0.3f},
                                                                       {{1, 3, 6, 6, 1}, 0}}) {
    SCOPED_TRACE(name(s, dropout));
    Operands o(s, 1, dropout);
    const Doubles qkv = o.qkv.doubles(), dy = o.dy.doubles();
    const Doubles want = finite_differences(qkv, [&, &s = s, &dropout = dropout](const Doubles& x) {
      const Oracle at(s, x, dropout);
      double loss = 0;
      for (std::size_t i = 0; i < dy.size(); ++i) loss += dy[i] * at.y[i];
      return loss;
    });
    const Oracle oracle(s, qkv, dropout, dy);
    double difference = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      difference = std::max(difference, std::abs(oracle.dqkv[i] - want[i]));
    }
    EXPECT_LE(difference, 1e-8);
    EXPECT_LE(relative_l2(o.run().dqkv.values, want), kTolerance);
  }
}

// Later positions must have no effect. At 1e30 they would, even with the smallest weight: exp(-inf)
// is not 0 everywhere, and the scores behind the mask overflow exp.
TEST(Attention, APositionSeesNoLaterOne) {
  for (const Sizes& s : kSizes) {
    for (const std::int64_t j : {s.T / 2, s.T - 1}) {
      SCOPED_TRACE(name(s, 0) + " j=" + std::to_string(j));
      Operands before(s), after(s);
      for (std::int64_t b = 0; b < s.B; ++b) {
        const auto row = after.qkv.values.begin() + (b * s.T + j) * s.row();
        std::fill(row, row + s.row(), 1e30f);
      }
      attention(*before.stream, before.forward());
      attention(*after.stream, after.forward());
      for (std::int64_t b = 0; b < s.B; ++b) {
        const auto at = [&](const Operands& o) { return o.y.values.begin() + b * s.T * s.C; };
        EXPECT_TRUE(std::equal(at(before), at(before) + j * s.C, at(after)));
        for (std::int64_t h = 0; h < s.H; ++h) {
          const auto lse = [&](const Operands& o) {
            return o.lse.values.begin() + (b * s.H + h) * s.T;
          };
          EXPECT_TRUE(std::equal(lse(before), lse(before) + j, lse(after)));
        }
      }
    }
  }
}

TEST(Attention, AGradientReachesNoLaterPosition) {
  for (const Sizes& s : kSizes) {
    const std::int64_t i = s.T / 2;
    SCOPED_TRACE(name(s, 0));
    Operands o(s);
    for (std::int64_t n = 0; n < s.B * s.T * s.C; ++n) {
      if (n / s.C % s.T != i) o.dy.values[n] = 0;
    }
    o.run();
    for (std::int64_t n = 0; n < s.B * s.T; ++n) {
      const auto row = o.dqkv.values.begin() + n * s.row();
      const bool zero = std::all_of(row, row + s.row(), [](float x) { return x == 0; });
      EXPECT_EQ(zero, n % s.T > i) << n;
    }
  }
}

// With scores in the hundreds, weights are 0 and 1 in float32, and exp must not overflow.
TEST(Attention, LargeScores) {
  const Sizes s{1, 100, 16, 2};
  Operands o(s);
  for (float& x : o.qkv.values) x *= 10;
  o.run();
  const Oracle want(s, o.qkv.doubles(), 0, o.dy.doubles());
  EXPECT_LE(relative_l2(o.y.values, want.y), 1e-4);
  EXPECT_LE(relative_l2(o.lse.values, want.lse), kTolerance);
  EXPECT_LE(relative_l2(o.dqkv.values, want.dqkv), 1e-4);
}

TEST(Attention, SameBitsOnAnyNumberOfThreads) {
  for (const Sizes& s : kSizes) {
    for (const float dropout : {0.0f, 0.3f}) {
      SCOPED_TRACE(name(s, dropout));
      Operands one(s, 1, dropout);
      one.run();
      for (const int threads : testing::threads_to_try({1, 2, 3, 8})) {
        expect_same_bits(Operands(s, threads, dropout).run(), one);
      }
    }
  }
}

// CUDA holds at most 128 features of a row; the CPU takes any width.
TEST(Attention, HeadsTooWideForCudaAreAnError) {
  Operands o({1, 2, 129, 1});
  if (testing::kDevice == Device::cpu) {
    EXPECT_NO_THROW(o.run());
  } else {
    const std::string words = "attention: heads: expected heads of at most 128 features, got 129";
    testing::expect_error<ShapeError>([&] { attention(*o.stream, o.forward()); }, words);
    testing::expect_error<ShapeError>([&] { attention(*o.stream, o.backward()); }, words);
  }
}

// Scratch may begin anywhere and hold any values, and the operator writes nothing behind its end.
TEST(Attention, ScratchNeitherMattersNorOverflows) {
  const Sizes s{2, 70, 12, 3};
  Operands want(s, 2);
  want.run();
  for (const std::int64_t offset : {0, 1, 5, 15}) {
    Operands o(s, 2);
    const std::int64_t numel = o.scratch.shape.numel();
    Owned<float> larger({offset + numel + 1}, -7.0f);
    AttentionForward forward = o.forward();
    AttentionBackward backward = o.backward();
    forward.scratch = backward.scratch = larger.view().slice(offset, numel);
    attention(*o.stream, forward);
    attention(*o.stream, backward);
    expect_same_bits(o, want);
    EXPECT_EQ(larger.values.back(), -7.0f);
    for (std::int64_t i = 0; i < offset; ++i) EXPECT_EQ(larger.values[i], -7.0f);
  }
}

TEST(Attention, WithoutDropoutTheKeyIsNotLookedAt) {
  const Sizes s{1, 40, 8, 2};
  Operands keyed(s), other(s);
  other.key = {};
  expect_same_bits(keyed.run(), other.run());
}

// A mask belongs to the global row: ranks that share a batch draw the masks of one rank.
TEST(Attention, DropoutIsTheSameHoweverTheBatchIsSplit) {
  const Sizes whole{3, 40, 8, 2};
  Operands all(whole, 1, 0.4f);
  all.run();
  for (std::int64_t row = 0; row < whole.B; ++row) {
    Operands one({1, whole.T, whole.C, whole.H}, 1, 0.4f);
    one.key.first_row += row;
    const auto part = [row](const Owned<float>& from, Owned<float>& to) {
      const std::int64_t numel = to.shape.numel();
      std::copy_n(from.values.begin() + row * numel, numel, to.values.begin());
    };
    part(all.qkv, one.qkv);
    part(all.dy, one.dy);
    Operands want({1, whole.T, whole.C, whole.H});
    part(all.y, want.y);
    part(all.lse, want.lse);
    part(all.dqkv, want.dqkv);
    expect_same_bits(one.run(), want);
  }
}

// Decoding: if only the last positions are computed, they have the same bits as in a whole pass.
TEST(Attention, LaterPositionsMayAskAlone) {
  for (const Sizes& s : kSizes) {
    for (const std::int64_t first : {std::int64_t{0}, s.T / 3, s.T - 1, s.T}) {
      SCOPED_TRACE(name(s, 0) + " first=" + std::to_string(first));
      Operands o(s);
      const Oracle want(s, o.qkv.doubles(), 0, {});
      const std::int64_t n = s.T - first, D = s.C / s.H;
      Owned<float> y({s.B, n, s.C}, kPoison), lse({s.B, s.H, n}, kPoison);
      AttentionForward forward = o.forward();
      forward.y = y;
      forward.lse = lse;
      forward.first = first;
      attention(*o.stream, forward);
      const auto tail = [&](const Doubles& all, std::int64_t parts, std::int64_t width) {
        Doubles last;
        for (std::int64_t part = 0; part < parts; ++part) {
          const auto begin = all.begin() + (part * s.T + first) * width;
          last.insert(last.end(), begin, begin + n * width);
        }
        return last;
      };
      EXPECT_LE(relative_l2(y.values, tail(want.y, s.B, s.H * D)), kTolerance);
      EXPECT_LE(relative_l2(lse.values, tail(want.lse, s.B * s.H, 1)), kTolerance);
    }
  }
}

TEST(Attention, NoSequencesAreNoWork) {
  Operands({0, 8, 4, 2}, 2).run();
  Operands({2, 0, 4, 2}, 2).run();
}

TEST(Attention, AnErrorNamesTheOperand) {
  Operands o({2, 6, 8, 2});
  Owned<float> wrong({2, 6, 9}), flat({2, 6});
  Owned<std::int32_t> integers({5000});
  const auto expect = [&](const auto& a, const std::string& words) {
    try {
      attention(*o.stream, a);
      ADD_FAILURE() << "accepted a wrong " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const auto with = [](auto a, auto member, auto value) {
    a.*member = value;
    return a;
  };
  const Tensor bad = wrong, two = flat;
  expect(with(o.forward(), &AttentionForward::y, bad), "attention: y");
  expect(with(o.forward(), &AttentionForward::lse, bad), "attention: lse");
  expect(with(o.forward(), &AttentionForward::scratch, two), "attention: scratch");
  expect(with(o.forward(), &AttentionForward::scratch, Tensor(integers)), "attention: scratch");
  expect(with(o.forward(), &AttentionForward::dropout, 1.0f), "dropout");
  expect(with(o.forward(), &AttentionForward::first, std::int64_t{1}), "attention: y");
  expect(with(o.forward(), &AttentionForward::first, std::int64_t{7}), "attention: first");
  expect(with(o.forward(), &AttentionForward::first, std::int64_t{-1}), "attention: first");
  expect(with(o.backward(), &AttentionBackward::dy, bad), "attention: dy");
}

}  // namespace
}  // namespace nanofsdp::ops::attention_test
