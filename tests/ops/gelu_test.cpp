#include "ops/gelu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::gelu_test {
namespace {

using testing::expect_error;
using testing::finite_differences;
using testing::Owned;
using testing::random_tensor;
using testing::relative_l2;
using testing::stream_of;
using Doubles = std::vector<double>;

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = testing::tolerance(2e-6);

// One element; sizes around a vector, a chunk and a block; more than a thread's share.
constexpr std::int64_t kSizes[] = {1, 3, 15, 16, 17, 511, 512, 513, 1024, 1025, 40001};

double forward(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

double slope(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

Owned<float> run(Tensor x, int threads = 1) {
  Owned<float> y(x.shape(), kPoison);
  gelu(*stream_of(threads), {.x = x, .y = y});
  return y;
}

Owned<float> run(Tensor dy, Tensor x, int threads = 1) {
  Owned<float> dx(x.shape(), kPoison);
  gelu(*stream_of(threads), {.dy = dy, .x = x, .dx = dx});
  return dx;
}

TEST(Gelu, BothDirectionsEqualTheOracle) {
  for (const std::int64_t n : kSizes) {
    for (const float scale : {1e-3f, 1.0f, 6.0f}) {
      SCOPED_TRACE("n=" + std::to_string(n) + " scale=" + std::to_string(scale));
      Owned<float> x = random_tensor({n}, 1, scale), dy = random_tensor({n}, 2);
      const Owned<float> x_before = x, dy_before = dy;
      Doubles y, dx;
      for (std::int64_t i = 0; i < n; ++i) {
        y.push_back(forward(x.values[i]));
        dx.push_back(dy.values[i] * slope(x.values[i]));
      }
      EXPECT_LE(relative_l2(run(x).values, y), kTolerance);
      EXPECT_LE(relative_l2(run(dy, x).values, dx), kTolerance);
      EXPECT_EQ(x.values, x_before.values);
      EXPECT_EQ(dy.values, dy_before.values);
    }
  }
}

// The values are right to the last digits at every tenth of [-8, 8]. The tanh approximation has an
// error of 4.7e-4.
TEST(Gelu, IsTheExactOneAtFixedPoints) {
  Owned<float> x({161}), ones({161}, 1.0f);
  for (int i = 0; i < 161; ++i) x.values[i] = static_cast<float>(i - 80) / 10;
  const Owned<float> y = run(x), dx = run(ones, x);
  for (int i = 0; i < 161; ++i) {
    EXPECT_NEAR(y.values[i], forward(x.values[i]), 2e-7 * (1 + std::abs(x.values[i])))
        << x.values[i];
    EXPECT_NEAR(dx.values[i], slope(x.values[i]), 4e-7) << x.values[i];
  }
  EXPECT_EQ(y.values[80], 0);
  EXPECT_EQ(dx.values[80], 0.5f);
}

TEST(Gelu, FarFromZeroIsTheIdentityOrNothing) {
  Owned<float> x({6}), ones({6}, 1.0f);
  x.values = {10, 100, 1e4f, -10, -100, -1e4f};
  EXPECT_EQ(run(x).values, (testing::Values<float>{10, 100, 1e4f, 0, 0, 0}));
  const Owned<float> dx = run(ones, x);
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(dx.values[i], i < 3 ? 1 : 0, 1e-20);
}

TEST(Gelu, NanStaysNan) {
  Owned<float> x({20}, kPoison), ones({20}, 1.0f);
  for (const float y : run(x).values) EXPECT_TRUE(std::isnan(y));
  for (const float dx : run(ones, x).values) EXPECT_TRUE(std::isnan(dx));
}

TEST(Gelu, BackwardIsTheDerivative) {
  Owned<float> x = random_tensor({30}, 1, 3), dy = random_tensor({30}, 2);
  const auto want = finite_differences(x.doubles(), [&](const Doubles& at) {
    double sum = 0;
    for (std::size_t i = 0; i < at.size(); ++i) sum += dy.values[i] * forward(at[i]);
    return sum;
  });
  EXPECT_LE(relative_l2(run(dy, x).values, want), kTolerance);
}

TEST(Gelu, DxMayTakeThePlaceOfDy) {
  for (const std::int64_t n : kSizes) {
    Owned<float> x = random_tensor({n}, 1, 3), dy = random_tensor({n}, 2);
    const Owned<float> want = run(dy, x);
    gelu(*stream_of(1), {.dy = dy, .x = x, .dx = dy});
    EXPECT_EQ(dy.values, want.values) << n;
  }
}

// The bits of an element depend on the element alone, not on threads or on where the array is cut.
TEST(Gelu, AnElementsPlaceChangesNoBit) {
  constexpr std::int64_t n = 40001;
  Owned<float> x = random_tensor({n}, 1, 4), dy = random_tensor({n}, 2);
  const Owned<float> y = run(x), dx = run(dy, x);
  for (const int threads : testing::threads_to_try({2, 3})) {
    EXPECT_EQ(run(x, threads).values, y.values);
    EXPECT_EQ(run(dy, x, threads).values, dx.values);
  }
  const auto stream = stream_of(1);
  const std::int64_t stride = testing::kDevice == Device::cpu ? 7 : 67;
  for (std::int64_t cut = 1; cut < 1003; cut += stride) {
    Owned<float> cut_y({n}), cut_dx({n});
    for (const auto& [begin, size] : {std::pair{std::int64_t{0}, cut}, {cut, n - cut}}) {
      const auto piece = [begin = begin, size = size](Tensor t) { return t.slice(begin, size); };
      gelu(*stream, {.x = piece(x), .y = piece(cut_y)});
      gelu(*stream, {.dy = piece(dy), .x = piece(x), .dx = piece(cut_dx)});
    }
    ASSERT_EQ(cut_y.values, y.values) << cut;
    ASSERT_EQ(cut_dx.values, dx.values) << cut;
  }
}

TEST(Gelu, AnErrorNamesTheOperand) {
  const auto stream = stream_of(1);
  Owned<float> x({4, 3}), y({4, 3}), wrong({4, 2});
  Owned<double> doubles({4, 3});
  const auto expect = [](const auto& action, const char* words) {
    expect_error<ShapeError>(action, words);
  };
  expect([&] { gelu(*stream, {.x = x, .y = wrong}); }, "gelu: y: expected float32 [4, 3]");
  expect([&] { gelu(*stream, {.x = doubles, .y = y}); }, "gelu: x");
  expect([&] { gelu(*stream, {.dy = wrong, .x = x, .dx = y}); }, "gelu: dy");
  expect([&] { gelu(*stream, {.dy = y, .x = x, .dx = wrong}); }, "gelu: dx");
}

}  // namespace
}  // namespace nanofsdp::ops::gelu_test
