#include "ops/exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace nanofsdp::ops {
namespace {

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
constexpr double kOfX = 0;
#else
constexpr double kOfX = 5e-8;  // n ln 2 is rounded before it is subtracted
#endif

// Steps of a number that is no power of two, over all that there is between the ends.
std::vector<float> sweep() {
  std::vector<float> xs;
  for (int i = 0; i <= 1'000'000; ++i) xs.push_back(-87.0f + 175.0f * static_cast<float>(i) / 1e6f);
  return xs;
}

TEST(Exponential, IsAsCloseAsItSays) {
  for (const float x : sweep()) {
    const double want = std::exp(static_cast<double>(x));
    ASSERT_NEAR(exponential(x) / want, 1, 4e-7 + kOfX * std::abs(x)) << x;
  }
  EXPECT_EQ(exponential(0), 1);
}

TEST(Exponential, BeyondItsEndsItStays) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {-87.1f, -1e4f, -3e38f, -kInfinity})
    EXPECT_EQ(exponential(x), exponential(-87));
  for (const float x : {88.1f, 1e4f, 3e38f, kInfinity}) EXPECT_EQ(exponential(x), exponential(88));
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_GE(exponential(-87), std::numeric_limits<float>::min()) << "no subnormal number";
}

// A loop becomes one of vectors, and what fills none is left over.
TEST(Exponential, InALoopEveryPlaceGivesTheSameBits) {
  const std::vector<float> xs = sweep();
  for (std::size_t n = 1; n < 70; ++n) {
    std::vector<float> ys(n);
    for (std::size_t i = 0; i < n; ++i) ys[i] = exponential(xs[1000 * n + i]);
    for (std::size_t i = 0; i < n; ++i) {
      volatile float alone = xs[1000 * n + i];
      ASSERT_EQ(ys[i], exponential(alone)) << n << " " << i;
    }
  }
}

}  // namespace
}  // namespace nanofsdp::ops
