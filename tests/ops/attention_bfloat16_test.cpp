#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/attention_oracle.h"
#include "support/errors.h"

// Attention of bfloat16 on a GPU, which has special kernels for heads of 64 and 128 features. The
// CPU refuses it.

namespace nanofsdp::ops::attention_bfloat16_test {
namespace {

using namespace attention_oracle;
using testing::relative_l2;
using testing::Values;
using testing::widened;
using Narrow = OperandsOf<bfloat16>;

class AttentionBfloat16 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_bfloat16_arithmetic(testing::kDevice)) GTEST_SKIP() << "not on this device";
  }
};

// bfloat16 has 8 significant bits, so rounding changes a number by at most 2^-9 of it. Sums of
// rounded weights have a larger error. With one position, dQ and dK are 0 except for the rounding
// of y, which is in delta.
constexpr double kOfY = 4e-3, kOfLse = 1e-5, kOfGradients = 1e-2, kOfFewPositions = 0.1;

bool same_bits(const Owned<bfloat16>& a, const Owned<bfloat16>& b) {
  return std::ranges::equal(a.values, b.values, {}, &bfloat16::bits, &bfloat16::bits);
}
void expect_same_bits(const Narrow& a, const Narrow& b) {
  EXPECT_TRUE(same_bits(a.y, b.y));
  EXPECT_EQ(a.lse.values, b.lse.values);
  EXPECT_TRUE(same_bits(a.dqkv, b.dqkv));
}

// Columns [first, first + count) of every row.
template <class T>
std::vector<T> columns(const std::vector<T>& rows, std::int64_t width, std::int64_t first,
                       std::int64_t count) {
  std::vector<T> found;
  for (auto row = rows.begin(); row != rows.end(); row += width) {
    found.insert(found.end(), row + first, row + first + count);
  }
  return found;
}

void expect_near_the_oracle(const Sizes& s, float dropout) {
  SCOPED_TRACE(name(s, dropout));
  Narrow o(s, 1, dropout);
  const Narrow before(s);
  o.run();
  const Oracle want(s, widened(before.qkv).doubles(), dropout, widened(before.dy).doubles());
  EXPECT_LE(relative_l2(widened(o.y).values, want.y), kOfY);
  EXPECT_LE(relative_l2(o.lse.values, want.lse), kOfLse);
  const Values<float> dqkv = widened(o.dqkv).values;
  const std::vector<float> got(dqkv.begin(), dqkv.end());
  const auto expect = [&](const char* what, std::int64_t first, std::int64_t count, double limit) {
    const double error =
        relative_l2(columns(got, s.row(), first, count), columns(want.dqkv, s.row(), first, count));
    EXPECT_LE(error, limit) << what;
  };
  const double of_scores = s.T <= 3 ? kOfFewPositions : kOfGradients;
  expect("dq", 0, s.C, of_scores);
  expect("dk", s.C, s.kv(), of_scores);
  expect("dv", s.C + s.kv(), s.kv(), kOfGradients);
  EXPECT_TRUE(same_bits(o.qkv, before.qkv));
  EXPECT_TRUE(same_bits(o.dy, before.dy));
}

// One row; a tile with one row less or more; several tiles; with own keys and with shared keys.
constexpr Sizes kFlash[] = {{2, 1, 64, 1},   {1, 3, 128, 2, 1},   {1, 64, 64, 1},
                            {2, 63, 128, 2}, {1, 65, 128, 2},     {1, 129, 64, 1},
                            {1, 200, 64, 1}, {1, 70, 256, 4, 2},  {2, 66, 192, 3, 1},
                            {1, 1, 128, 1},  {1, 17, 256, 2, 1},  {1, 64, 128, 1},
                            {2, 65, 128, 1}, {1, 130, 256, 2, 1}, {1, 70, 512, 4, 2}};

TEST_F(AttentionBfloat16, EqualsTheOracle) {
  for (const Sizes& s : kFlash) {
    for (const float dropout : {0.0f, 0.3f}) expect_near_the_oracle(s, dropout);
  }
}

// Widths without a special kernel use kernels that round only their results.
TEST_F(AttentionBfloat16, OfOtherWidthsEqualsTheOracle) {
  for (const Sizes& s : kSizes) {
    for (const float dropout : {0.0f, 0.3f}) expect_near_the_oracle(s, dropout);
  }
}

TEST_F(AttentionBfloat16, LongSequencesEqualTheOracle) {
  for (const std::int64_t T :
       {2, 15, 16, 31, 33, 127, 128, 191, 192, 193, 255, 257, 300, 384, 513, 576, 640, 641}) {
    for (const std::int64_t D : {64, 128}) {
      expect_near_the_oracle({1, T, 2 * D, 2, 1}, T % 2 == 0 ? 0.0f : 0.2f);
      if (T <= 193) expect_near_the_oracle({2, T, 3 * D, 3}, T % 2 == 0 ? 0.2f : 0.0f);
    }
  }
}

TEST_F(AttentionBfloat16, LargeScores) {
  for (const std::int64_t D : {64, 128}) {
    const Sizes s{1, 100, D, 1};
    Narrow o(s);
    for (bfloat16& x : o.qkv.values) x = to_bfloat16(8 * to_float32(x));
    o.run();
    const Oracle want(s, widened(o.qkv).doubles(), 0, widened(o.dy).doubles());
    EXPECT_LE(relative_l2(widened(o.y).values, want.y), kOfY);
    EXPECT_LE(relative_l2(o.lse.values, want.lse), kOfLse);
    EXPECT_LE(relative_l2(widened(o.dqkv).values, want.dqkv), 3 * kOfGradients);
  }
}

// The emulation runs copies and warps in another order in each run.
TEST_F(AttentionBfloat16, GivesTheSameBitsOnEveryRun) {
  for (const Sizes& s : {Sizes{2, 130, 64, 1}, Sizes{1, 70, 256, 4, 2}, Sizes{1, 130, 128, 1}}) {
    Narrow first(s, 1, 0.3f);
    first.run();
    for (int i = 0; i < (testing::kEmulated ? 6 : 2); ++i) {
      expect_same_bits(Narrow(s, 1, 0.3f).run(), first);
    }
  }
}

// Later positions must have no effect, even at 1e30.
TEST_F(AttentionBfloat16, APositionSeesNoLaterOne) {
  for (const std::int64_t D : {60, 64, 128}) {
    const Sizes s{1, 130, D, 1};
    for (const std::int64_t j : {15, 63, 64, 129}) {
      Narrow before(s), after(s);
      const auto row = after.qkv.values.begin() + j * s.row();
      std::fill(row, row + s.row(), to_bfloat16(1e30f));
      attention(*before.stream, before.forward());
      attention(*after.stream, after.forward());
      const auto seen = [&](const Narrow& o) {
        return std::vector<float>(o.lse.values.begin(), o.lse.values.begin() + j);
      };
      EXPECT_EQ(seen(before), seen(after));
      const auto bits = [&](const Narrow& o) {
        const Values<float> y = widened(o.y).values;
        return std::vector<float>(y.begin(), y.begin() + j * s.C);
      };
      EXPECT_EQ(bits(before), bits(after)) << j;
    }
  }
}

TEST_F(AttentionBfloat16, AGradientReachesNoLaterPosition) {
  for (const std::int64_t D : {64, 128}) {
    const Sizes s{1, 140, D, 1};
    for (const std::int64_t i : {0, 63, 70}) {
      Narrow o(s);
      for (std::int64_t n = 0; n < s.T * s.C; ++n) {
        if (n / s.C != i) o.dy.values[n] = {};
      }
      o.run();
      for (std::int64_t t = 0; t < s.T; ++t) {
        const auto row = o.dqkv.values.begin() + t * s.row();
        const bool zero =
            std::all_of(row, row + s.row(), [](bfloat16 x) { return to_float32(x) == 0; });
        EXPECT_EQ(zero, t > i) << t;
      }
    }
  }
}

// Decoding: if only the last positions are computed, they have the same bits as in a whole pass.
TEST_F(AttentionBfloat16, LaterPositionsMayAskAlone) {
  for (const Sizes& s : {Sizes{2, 130, 128, 2}, Sizes{1, 130, 256, 2, 1}, Sizes{1, 70, 36, 3}}) {
    Narrow all(s, 1, 0.3f);
    attention(*all.stream, all.forward());
    for (const std::int64_t first : {1, 63, 64, 100, 129, 130}) {
      const std::int64_t n = s.T - first;
      if (n < 0) continue;
      SCOPED_TRACE(name(s, 0.3f) + " first=" + std::to_string(first));
      Owned<bfloat16> y({s.B, n, s.C}, Narrow::poison());
      Owned<float> lse({s.B, s.H, n}, kPoison);
      AttentionForward a = all.forward();
      a.y = y, a.lse = lse, a.first = first;
      attention(*all.stream, a);
      for (std::int64_t i = 0; i < s.B * n * s.C; ++i) {
        const std::int64_t b = i / (n * s.C);
        ASSERT_EQ(y.values[i].bits, all.y.values[i + (b + 1) * first * s.C].bits) << i;
      }
      for (std::int64_t i = 0; i < s.B * s.H * n; ++i) {
        ASSERT_EQ(lse.values[i], all.lse.values[i + (i / n + 1) * first]) << i;
      }
    }
  }
}

// A mask belongs to the global row: ranks that share a batch draw the masks of one rank.
TEST_F(AttentionBfloat16, DropoutIsTheSameHoweverTheBatchIsSplit) {
  const Sizes whole{2, 70, 128, 2};
  Narrow all(whole, 1, 0.4f);
  all.run();
  for (std::int64_t row = 0; row < whole.B; ++row) {
    Narrow one({1, whole.T, whole.C, whole.H}, 1, 0.4f);
    one.key.first_row += row;
    const auto part = [row](const auto& from, auto& to) {
      const std::int64_t numel = to.shape.numel();
      std::copy_n(from.values.begin() + row * numel, numel, to.values.begin());
    };
    part(all.qkv, one.qkv), part(all.dy, one.dy);
    Narrow want({1, whole.T, whole.C, whole.H});
    part(all.y, want.y), part(all.lse, want.lse), part(all.dqkv, want.dqkv);
    expect_same_bits(one.run(), want);
  }
}

// With 8 more columns on either side, rows still begin at multiples of 16 bytes. With one more
// column they do not, so the plain kernels run. The columns beside are NaN: they are neither read
// nor written.
TEST_F(AttentionBfloat16, HeadsMayLieAmongOtherColumns) {
  for (const Sizes& s : {Sizes{2, 70, 128, 2}, Sizes{1, 66, 128, 1}}) {
    for (const std::int64_t beside : {8, 1}) {
      SCOPED_TRACE(name(s, 0) + " beside=" + std::to_string(beside));
      Narrow packed(s), o(s);
      packed.run();
      const std::int64_t width = s.row() + 2 * beside, rows = s.B * s.T;
      Owned<bfloat16> qkv({s.B, s.T, width}, Narrow::poison()), dqkv = qkv;
      for (std::int64_t t = 0; t < rows; ++t) {
        const auto row = packed.qkv.values.begin() + t * s.row();
        std::copy(row, row + s.row(), qkv.values.begin() + t * width + beside);
      }
      const auto moved = [&](Heads heads, Tensor to) {
        return Heads{to, heads.first + beside, heads.heads};
      };
      AttentionForward forward = o.forward();
      for (Heads* x : {&forward.q, &forward.k, &forward.v}) *x = moved(*x, qkv);
      attention(*o.stream, forward);
      AttentionBackward backward = o.backward();
      for (Heads* x : {&backward.q, &backward.k, &backward.v}) *x = moved(*x, qkv);
      for (Heads* x : {&backward.dq, &backward.dk, &backward.dv}) *x = moved(*x, dqkv);
      attention(*o.stream, backward);
      EXPECT_EQ(same_bits(o.y, packed.y), beside == 8);
      EXPECT_LE(relative_l2(widened(o.y).values, widened(packed.y).doubles()), 2 * kOfY);
      std::vector<float> inner;
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const float x = to_float32(dqkv.values[i]);
        const bool there = i % width >= beside && i % width < beside + s.row();
        if (there) {
          inner.push_back(x);
        } else {
          EXPECT_TRUE(x != x);
        }
      }
      EXPECT_LE(relative_l2(inner, widened(packed.dqkv).doubles()), beside == 1 ? kOfGradients : 0);
    }
  }
}

TEST_F(AttentionBfloat16, AllOperandsAreOrNone) {
  Narrow o({1, 6, 128, 2});
  Operands wide({1, 6, 128, 2});
  const auto expect = [&](const auto& a, const std::string& operand) {
    testing::expect_error<ShapeError>([&] { attention(*o.stream, a); },
                                      "attention: " + operand + ": expected ");
  };
  AttentionForward forward = o.forward();
  forward.k = wide.forward().k;
  expect(forward, "k");
  forward = o.forward(), forward.y = wide.y;
  expect(forward, "q");
  Owned<bfloat16> lse({1, 2, 6});
  forward = o.forward(), forward.lse = lse;
  expect(forward, "lse");
  AttentionBackward backward = o.backward();
  backward.dy = wide.dy;
  expect(backward, "dy");
  backward = o.backward(), backward.dv = wide.backward().dv;
  expect(backward, "dv");
}

TEST(AttentionBfloat16OnACpu, IsRefused) {
  if (has_bfloat16_arithmetic(testing::kDevice)) GTEST_SKIP() << "this device has";
  Narrow o({1, 6, 128, 2});
  testing::expect_error<ShapeError>([&] { attention(*o.stream, o.forward()); },
                                    "attention: y: expected float32");
}

}  // namespace
}  // namespace nanofsdp::ops::attention_bfloat16_test
