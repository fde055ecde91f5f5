#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/cross_entropy.h"
#include "support/errors.h"
#include "support/tensors.h"

// The loss and its gradient in one call, and logits of bfloat16, which a GPU takes.

namespace nanofsdp::ops::cross_entropy_both_test {
namespace {

using testing::Owned;
using testing::relative_l2;
using testing::stream_of;
using Doubles = std::vector<double>;

constexpr bool kArithmetic = has_bfloat16_arithmetic(testing::kDevice);
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = testing::tolerance(2e-6);
constexpr double kRounding = 2e-3;  // error of one rounding: at most 2^-9 of each number

struct Sizes {
  std::int64_t N, V;
};

// Rows that fill no pack of eight; rows of one pack; rows with less and with more packs than a
// warp's seven for each thread; rows for several warps; GPT-2's vocabulary with and without
// padding; the first size that registers do not hold.
constexpr Sizes kSizes[] = {{1, 1},     {3, 7},     {4, 8},    {3, 65},    {5, 1784},
                            {3, 1792},  {4, 1800},  {2, 5003}, {3, 16384}, {2, 50257},
                            {4, 50304}, {1, 57344}, {2, 57352}};

std::string name(const Sizes& s) {
  return "N=" + std::to_string(s.N) + " V=" + std::to_string(s.V);
}

template <class T>
struct OperandsOf {
  explicit OperandsOf(const Sizes& s) : logits({s.N, s.V}), target({s.N}), loss({s.N}, kPoison) {
    const Owned<float> drawn = testing::random_tensor({s.N, s.V}, 1, 8);
    if constexpr (dtype_of<T> == DType::float32) {
      logits = drawn;
    } else {
      logits = testing::narrow(drawn);
    }
    std::mt19937 bits(2);
    for (std::int32_t& t : target.values) t = static_cast<std::int32_t>(bits() % s.V);
    target.values.front() = static_cast<std::int32_t>(s.V - 1);
    if (s.N > 2) target.values[1] = 0;
    if (s.N > 3) target.values[2] = -1;
  }
  CrossEntropyForward forward() { return {logits, target, loss, lse, total}; }
  CrossEntropyBackward backward(float scale) { return {logits, target, lse, scale}; }
  CrossEntropy both(float scale) { return {forward(), scale}; }

  Owned<T> logits;
  Owned<std::int32_t> target;
  Owned<float> loss, lse = loss;
  Owned<double> total{{1}, 3};
};
using Operands = OperandsOf<float>;
using Narrow = OperandsOf<bfloat16>;

TEST(CrossEntropyBoth, IsOneDirectionAfterTheOther) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(name(s));
    Operands once(s), twice(s);
    cross_entropy(*stream_of(), once.both(0.125f));
    cross_entropy(*stream_of(), twice.forward());
    cross_entropy(*stream_of(), twice.backward(0.125f));
    EXPECT_EQ(once.loss.values, twice.loss.values);
    EXPECT_EQ(once.lse.values, twice.lse.values);
    EXPECT_EQ(once.total.values, twice.total.values);
    EXPECT_EQ(once.logits.values, twice.logits.values);
  }
}

struct Oracle {
  Oracle(const Sizes& s, const Doubles& x, const std::vector<std::int32_t>& target, double scale)
      : loss(s.N), lse(s.N), dlogits(s.N * s.V) {
    for (std::int64_t n = 0; n < s.N; ++n) {
      double sum = 0;
      for (std::int64_t v = 0; v < s.V; ++v) sum += std::exp(x[n * s.V + v]);
      lse[n] = std::log(sum);
      if (target[n] < 0) continue;
      loss[n] = lse[n] - x[n * s.V + target[n]];
      total += loss[n];
      for (std::int64_t v = 0; v < s.V; ++v) {
        dlogits[n * s.V + v] =
            scale * (std::exp(x[n * s.V + v] - lse[n]) - (v == target[n] ? 1 : 0));
      }
    }
  }
  Doubles loss, lse, dlogits;
  double total = 0;
};

TEST(CrossEntropyBoth, OfBfloat16EqualsTheOracle) {
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  for (const Sizes& s : kSizes) {
    for (const bool at_once : {true, false}) {
      SCOPED_TRACE(name(s) + (at_once ? " at once" : ""));
      Narrow o(s);
      const Narrow before(s);
      const std::vector<std::int32_t> target(o.target.values.begin(), o.target.values.end());
      const Oracle want(s, testing::widened(before.logits).doubles(), target, 0.125);
      if (at_once) {
        cross_entropy(*stream_of(), o.both(0.125f));
      } else {
        cross_entropy(*stream_of(), o.forward());
        cross_entropy(*stream_of(), o.backward(0.125f));
      }
      EXPECT_LE(relative_l2(o.loss.values, want.loss), kTolerance);
      EXPECT_LE(relative_l2(o.lse.values, want.lse), kTolerance);
      EXPECT_NEAR(o.total.values[0], 3 + want.total, kTolerance * want.total) << "added to";
      EXPECT_LE(relative_l2(testing::widened(o.logits).values, want.dlogits),
                s.V == 1 ? 1e-6 : kRounding);
    }
  }
}

TEST(CrossEntropyBoth, OfBfloat16GivesTheSameBitsOnEveryRun) {
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  for (const Sizes& s : {Sizes{3, 65}, Sizes{3, 16384}}) {
    Narrow first(s);
    cross_entropy(*stream_of(), first.both(1));
    for (int i = 0; i < 3; ++i) {
      Narrow again(s);
      cross_entropy(*stream_of(), again.both(1));
      EXPECT_EQ(again.loss.values, first.loss.values);
      EXPECT_TRUE(std::ranges::equal(again.logits.values, first.logits.values, {}, &bfloat16::bits,
                                     &bfloat16::bits));
    }
  }
}

// The operator writes only its rows, and no memory beside them.
TEST(CrossEntropyBoth, OfBfloat16WritesItsRowsAlone) {
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  const Sizes s{2, 1800};
  Owned<bfloat16> around({4, s.V}, to_bfloat16(7));
  Narrow o(s);
  const auto row = around.values.begin() + s.V;
  std::copy(o.logits.values.begin(), o.logits.values.end(), row);
  CrossEntropy a = o.both(1);
  a.logits = around.view().slice(s.V, 2 * s.V).view({2, s.V});
  cross_entropy(*stream_of(), a);
  for (std::int64_t i = 0; i < 4 * s.V; ++i) {
    const bool beside = i / s.V % 3 == 0;
    ASSERT_TRUE(!beside || to_float32(around.values[i]) == 7) << i;
  }
}

TEST(CrossEntropyBoth, LogitsFarApartOrMinusInfinityOverflowNothing) {
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  const Sizes s{3, 16};
  Narrow o(s);
  o.target.values = {0, 2, 15};
  for (bfloat16& x : o.logits.values) x = to_bfloat16(-INFINITY);
  o.logits.values[0] = to_bfloat16(1e4f), o.logits.values[1] = to_bfloat16(-1e4f);
  o.logits.values[16 + 2] = o.logits.values[16 + 9] = to_bfloat16(80);
  for (int v = 0; v < 16; ++v) o.logits.values[32 + v] = to_bfloat16(-5);
  cross_entropy(*stream_of(), o.both(1));
  const double losses[] = {0, std::log(2.0), std::log(16.0)};
  for (int n = 0; n < 3; ++n) EXPECT_NEAR(o.loss.values[n], losses[n], 1e-6) << n;
  const auto at = [&](int i) { return to_float32(o.logits.values[i]); };
  EXPECT_NEAR(at(0), 0, 1e-6);
  EXPECT_EQ(at(1), 0);
  EXPECT_EQ(at(16 + 2), -0.5f);
  EXPECT_EQ(at(16 + 9), 0.5f);
  EXPECT_EQ(at(16 + 3), 0);
  EXPECT_EQ(at(32), 0.0625f);
  EXPECT_EQ(at(47), -0.9375f);
}

TEST(CrossEntropyBoth, AnIgnoredRowHasNoLossAndNoGradientWhateverItHolds) {
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  Narrow o({3, 16});
  o.target.values = {4, -1, 5};
  for (int v = 0; v < 16; ++v) o.logits.values[16 + v] = to_bfloat16(kPoison);
  cross_entropy(*stream_of(), o.both(1));
  EXPECT_EQ(o.loss.values[1], 0);
  EXPECT_TRUE(std::isfinite(o.total.values[0]));
  for (int v = 0; v < 16; ++v) EXPECT_EQ(to_float32(o.logits.values[16 + v]), 0);
}

TEST(CrossEntropyBoth, NanInALivingRowShows) {
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  Narrow o({2, 1800});
  o.logits.values[1799] = to_bfloat16(kPoison);
  cross_entropy(*stream_of(), o.both(1));
  EXPECT_TRUE(std::isnan(o.loss.values[0]));
  EXPECT_FALSE(std::isnan(o.loss.values[1]));
}

TEST(CrossEntropyBoth, ChecksItsOperands) {
  Operands o({6, 5});
  Owned<float> wrong({5});
  const auto expect = [&](Tensor CrossEntropy::*operand, Tensor with, const char* words) {
    CrossEntropy a = o.both(1);
    a.*operand = with;
    testing::expect_error<ShapeError>([&] { cross_entropy(*stream_of(), a); }, words);
  };
  expect(&CrossEntropy::logits, wrong, "cross_entropy: logits: expected float32 of 2 dimensions");
  expect(&CrossEntropy::target, wrong, "cross_entropy: target: expected int32 [6]");
  expect(&CrossEntropy::loss, wrong, "cross_entropy: loss");
  expect(&CrossEntropy::lse, wrong, "cross_entropy: lse");
  expect(&CrossEntropy::total, wrong, "cross_entropy: total: expected float64 [1]");
  Owned<bfloat16> narrow({6, 5});
  if (!kArithmetic) expect(&CrossEntropy::logits, narrow, "logits: expected float32");
}

}  // namespace
}  // namespace nanofsdp::ops::cross_entropy_both_test
