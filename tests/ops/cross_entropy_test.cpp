#include "ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::cross_entropy_test {
namespace {

using testing::expect_error;
using testing::finite_differences;
using testing::Owned;
using testing::random_tensor;
using testing::relative_l2;
using testing::stream_of;
using Doubles = std::vector<double>;
using Targets = decltype(Owned<std::int32_t>::values);

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = testing::tolerance(2e-6);

struct Sizes {
  std::int64_t N, V;
};

// One element; one row; one class; the characters of Shakespeare; sizes around one chunk; several
// chunks; the vocabulary of GPT-2.
constexpr std::int64_t kRows = testing::kEmulated ? 100 : 768;
constexpr Sizes kSizes[] = {{1, 1},    {5, 1},    {1, 7},    {3, 2},    {kRows, 65}, {5, 16},
                            {4, 1023}, {4, 1024}, {3, 1025}, {9, 5003}, {2, 50257}};

std::string name(const Sizes& s) {
  return "N=" + std::to_string(s.N) + " V=" + std::to_string(s.V);
}

struct Losses {
  Doubles loss, lse;
  double total = 0;
};

Losses forward(const Sizes& s, const Doubles& logits, const Targets& target) {
  Losses out{Doubles(s.N), Doubles(s.N)};
  for (std::int64_t n = 0; n < s.N; ++n) {
    double max = -INFINITY, sum = 0;
    for (std::int64_t v = 0; v < s.V; ++v) max = std::max(max, logits[n * s.V + v]);
    for (std::int64_t v = 0; v < s.V; ++v) sum += std::exp(logits[n * s.V + v] - max);
    out.lse[n] = max + std::log(sum);
    out.loss[n] = target[n] < 0 ? 0 : out.lse[n] - logits[n * s.V + target[n]];
    out.total += out.loss[n];
  }
  return out;
}

Doubles backward(const Sizes& s, const Doubles& logits, const Targets& target, double scale) {
  const Doubles lse = forward(s, logits, target).lse;
  Doubles dlogits(s.N * s.V);
  for (std::int64_t n = 0; n < s.N; ++n) {
    for (std::int64_t v = 0; v < s.V && target[n] >= 0; ++v) {
      const std::int64_t i = n * s.V + v;
      dlogits[i] = scale * (std::exp(logits[i] - lse[n]) - (v == target[n] ? 1 : 0));
    }
  }
  return dlogits;
}

struct Operands {
  explicit Operands(const Sizes& s, float spread = 10)
      : logits(random_tensor({s.N, s.V}, 1, spread)),
        target({s.N}),
        loss({s.N}, kPoison),
        lse({s.N}, kPoison),
        total({1}) {
    std::mt19937 bits(2);
    for (std::int32_t& t : target.values) t = static_cast<std::int32_t>(bits() % s.V);
    // The targets include the last class, the first class and -1.
    target.values.front() = static_cast<std::int32_t>(s.V - 1);
    if (s.N > 2) target.values[1] = 0;
    if (s.N > 3) target.values[2] = -1;
  }

  CrossEntropyForward forward() {
    return {.logits = logits, .target = target, .loss = loss, .lse = lse, .total = total};
  }
  CrossEntropyBackward backward(float scale = 1) {
    return {.logits = logits, .target = target, .lse = lse, .scale = scale};
  }

  Owned<float> logits;
  Owned<std::int32_t> target;
  Owned<float> loss, lse;
  Owned<double> total;
};

TEST(CrossEntropy, BothDirectionsEqualTheOracle) {
  const auto stream = stream_of(1);
  for (const Sizes& s : kSizes) {
    for (const float spread : {0.1f, 10.0f}) {
      SCOPED_TRACE(name(s) + " spread=" + std::to_string(spread));
      Operands o(s, spread);
      Operands in = o;
      const Losses want = forward(s, in.logits.doubles(), in.target.values);
      o.total.values[0] = 3;
      cross_entropy(*stream, o.forward());
      EXPECT_LE(relative_l2(o.loss.values, want.loss), kTolerance);
      EXPECT_LE(relative_l2(o.lse.values, want.lse), kTolerance);
      EXPECT_NEAR(o.total.values[0], 3 + want.total, kTolerance * want.total) << "added to";
      EXPECT_EQ(o.logits.values, in.logits.values);

      cross_entropy(*stream, o.backward(0.125f));
      const Doubles dlogits = backward(s, in.logits.doubles(), in.target.values, 0.125);
      // With one class the gradient is 1 - 1, so its relative error is large.
      EXPECT_LE(relative_l2(o.logits.values, dlogits), s.V == 1 ? 1e-6 : kTolerance);
      EXPECT_EQ(o.target.values, in.target.values);
    }
  }
}

TEST(CrossEntropy, BackwardIsTheDerivativeOfTheScaledSum) {
  const Sizes s{4, 6};
  Operands o(s, 2);
  const auto want = finite_differences(o.logits.doubles(), [&](const Doubles& at) {
    return 0.25 * forward(s, at, o.target.values).total;
  });
  cross_entropy(*stream_of(1), o.forward());
  cross_entropy(*stream_of(1), o.backward(0.25f));
  EXPECT_LE(relative_l2(o.logits.values, want), kTolerance);
}

TEST(CrossEntropy, EqualLogitsLoseTheLogarithmOfTheirNumber) {
  const Sizes s{2, 65};
  Operands o(s, 0);
  cross_entropy(*stream_of(1), o.forward());
  EXPECT_FLOAT_EQ(o.loss.values[0], std::log(65.0f));
}

TEST(CrossEntropy, AnIgnoredRowHasNoLossAndNoGradientWhateverItHolds) {
  const Sizes s{3, 20};
  Operands o(s);
  o.target.values = {4, -1, 5};
  for (std::int64_t v = 0; v < s.V; ++v) o.logits.values[s.V + v] = kPoison;
  cross_entropy(*stream_of(1), o.forward());
  EXPECT_EQ(o.loss.values[1], 0);
  EXPECT_TRUE(std::isfinite(o.total.values[0]));
  cross_entropy(*stream_of(1), o.backward());
  for (std::int64_t v = 0; v < s.V; ++v) EXPECT_EQ(o.logits.values[s.V + v], 0);
}

TEST(CrossEntropy, NanInALivingRowShows) {
  for (const std::int64_t at : {0, 17, 1024}) {
    Operands o({1, 1030});
    o.logits.values[at] = kPoison;
    cross_entropy(*stream_of(1), o.forward());
    EXPECT_TRUE(std::isnan(o.loss.values[0])) << at;
  }
}

TEST(CrossEntropy, LogitsFarApartOrMinusInfinityOverflowNothing) {
  Operands o({4, 3});
  o.target.values = {0, 2, 1, 2};
  o.logits.values = {1e4f,  -1e4f, -INFINITY, -500,      80, 80,  //
                     -1e4f, 1e4f,  -INFINITY, -INFINITY, -5, -5};
  cross_entropy(*stream_of(1), o.forward());
  const double losses[] = {0, std::log(2.0), 0, std::log(2.0)};
  for (int n = 0; n < 4; ++n) EXPECT_NEAR(o.loss.values[n], losses[n], 1e-6) << n;
  cross_entropy(*stream_of(1), o.backward());
  const float want[] = {0, 0, 0, 0, 0.5f, -0.5f, 0, 0, 0, 0, 0.5f, -0.5f};
  for (int i = 0; i < 12; ++i) EXPECT_NEAR(o.logits.values[i], want[i], 1e-5) << i;
}

// A row's first logit may be of any size among the others.
TEST(CrossEntropy, AnyFirstLogitGivesTheLossOfItsRow) {
  const std::int64_t V = 100;
  for (const float first : {-1e30f, -300.0f, -90.0f, -86.0f, -80.0f, 0.0f, 50.0f, 300.0f}) {
    Operands o({1, V}, 2);
    o.logits.values[0] = first;
    const Losses want = forward({1, V}, o.logits.doubles(), o.target.values);
    cross_entropy(*stream_of(1), o.forward());
    EXPECT_NEAR(o.lse.values[0] / want.lse[0], 1, 1e-6) << first;
  }
}

TEST(CrossEntropy, AnyNumberOfThreadsGivesTheSameBits) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(name(s));
    Operands one(s);
    cross_entropy(*stream_of(1), one.forward());
    cross_entropy(*stream_of(1), one.backward());
    for (const int threads : {2, 3}) {
      Operands many(s);
      cross_entropy(*stream_of(threads), many.forward());
      cross_entropy(*stream_of(threads), many.backward());
      EXPECT_EQ(many.loss.values, one.loss.values);
      EXPECT_EQ(many.lse.values, one.lse.values);
      EXPECT_EQ(many.total.values, one.total.values);
      EXPECT_EQ(many.logits.values, one.logits.values);
    }
  }
}

// The same row stands there sixteen times, so each copy begins at another place within a vector.
TEST(CrossEntropy, ARowsPlaceChangesNoBit) {
  for (const std::int64_t V : {65, 1041}) {
    Operands o({16, V});
    o.target = Owned<std::int32_t>({16}, 3);
    for (std::int64_t i = V; i < 16 * V; ++i) o.logits.values[i] = o.logits.values[i - V];
    cross_entropy(*stream_of(1), o.forward());
    cross_entropy(*stream_of(1), o.backward());
    for (int n = 1; n < 16; ++n) EXPECT_EQ(o.loss.values[n], o.loss.values[0]) << n;
    for (std::int64_t i = V; i < 16 * V; ++i) {
      ASSERT_EQ(o.logits.values[i], o.logits.values[i - V]) << i;
    }
  }
}

TEST(CrossEntropy, ABadTargetIsNamedBeforeAnythingIsWritten) {
  if (testing::kDevice == Device::cuda)
    GTEST_SKIP() << "a kernel cannot throw, it stops the device";
  for (const std::int32_t bad : {-2, 5, std::numeric_limits<std::int32_t>::max()}) {
    Operands o({6, 5});
    o.target.values[4] = bad;
    const auto logits = o.logits.values;
    const std::string words =
        "cross_entropy: target of row 4: expected -1 or a class in [0, 5), "
        "got " +
        std::to_string(bad);
    expect_error<Error>([&] { cross_entropy(*stream_of(1), o.forward()); }, words);
    expect_error<Error>([&] { cross_entropy(*stream_of(1), o.backward()); }, words);
    EXPECT_TRUE(std::isnan(o.loss.values[0]));
    EXPECT_EQ(o.logits.values, logits);
  }
}

// Without classes a row has no loss, so its loss would stay as it was.
TEST(CrossEntropy, RowsHaveAClassOrMore) {
  for (const std::int64_t rows : {1, 6}) {
    Operands o({rows, 1});
    CrossEntropyForward forward = o.forward();
    CrossEntropyBackward backward = o.backward();
    forward.logits = backward.logits =
        Tensor(o.logits.values.data(), {rows, 0}, DType::float32, testing::kDevice);
    const char* const words = "cross_entropy: logits: expected a class or more";
    expect_error<ShapeError>([&] { cross_entropy(*stream_of(1), forward); }, words);
    expect_error<ShapeError>([&] { cross_entropy(*stream_of(1), backward); }, words);
    expect_error<ShapeError>([&] { cross_entropy(*stream_of(1), CrossEntropy{forward}); }, words);
  }
}

TEST(CrossEntropy, AnErrorNamesTheOperand) {
  Operands o({6, 5});
  Owned<float> wrong({5}), floats({6});
  const auto expect = [&](Tensor CrossEntropyForward::*operand, Tensor with, const char* words) {
    CrossEntropyForward a = o.forward();
    a.*operand = with;
    expect_error<ShapeError>([&] { cross_entropy(*stream_of(1), a); }, words);
  };
  expect(&CrossEntropyForward::logits, wrong,
         "cross_entropy: logits: expected float32 of 2 dimensions");
  expect(&CrossEntropyForward::target, wrong, "cross_entropy: target: expected int32 [6]");
  expect(&CrossEntropyForward::target, floats, "cross_entropy: target: expected int32 [6]");
  expect(&CrossEntropyForward::loss, wrong, "cross_entropy: loss");
  expect(&CrossEntropyForward::lse, wrong, "cross_entropy: lse");
  expect(&CrossEntropyForward::total, wrong, "cross_entropy: total: expected float64 [1]");
  CrossEntropyBackward b = o.backward();
  b.lse = wrong;
  expect_error<ShapeError>([&] { cross_entropy(*stream_of(1), b); }, "cross_entropy: lse");
}

}  // namespace
}  // namespace nanofsdp::ops::cross_entropy_test
