
#include "base/exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace nanofsdp::ops::exp_test {
namespace {

// Numbers between the ends, at a distance that is not a power of two.
std::vector<float> sweep() {
  std::vector<float> xs;
  for (int i = 0; i <= 1'000'000; ++i) xs.push_back(-87.0f + 175.0f * static_cast<float>(i) / 1e6f);
  return xs;
}

// Calls the function at run time, because a compiler may round a constant in another way.
float at(float x) {
  volatile float unknown = x;
  return exponential(unknown);
}

TEST(Exponential, IsAsCloseAsItSays) {
  for (const float x : sweep()) {
    const double want = std::exp(static_cast<double>(x));
    ASSERT_NEAR(at(x) / want, 1, 4e-7 + 6e-8 * std::abs(x)) << x;
  }
  EXPECT_EQ(at(0), 1);
}

TEST(Exponential, BelowItStaysAndAboveItGrows) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {-87.1f, -1e4f, -3e38f, -kInfinity}) EXPECT_EQ(at(x), at(-87));
  float last = at(88);
  for (const float x : {88.1f, 88.5f, 89.0f, 1e4f, 1e8f, 3e38f, kInfinity}) {
    EXPECT_GE(at(x), last) << x;
    last = at(x);
  }
  EXPECT_EQ(last, kInfinity);
  for (const float sign : {1.0f, -1.0f}) {
    EXPECT_TRUE(std::isnan(at(std::copysign(std::numeric_limits<float>::quiet_NaN(), sign))));
  }
  EXPECT_GE(at(-87), std::numeric_limits<float>::min()) << "no subnormal number";
}

// A compiler vectorises the loop, and computes the last elements one by one.
TEST(Exponential, InALoopEveryPlaceGivesTheSameBits) {
  const std::vector<float> xs = sweep();
  for (std::size_t n = 1; n < 70; ++n) {
    std::vector<float> ys(n);
    for (std::size_t i = 0; i < n; ++i) ys[i] = exponential(xs[1000 * n + i]);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(ys[i], at(xs[1000 * n + i])) << n << " " << i;
  }
}

}  // namespace
}  // namespace nanofsdp::ops::exp_test
