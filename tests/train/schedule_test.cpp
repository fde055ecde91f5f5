#include "train/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/check.h"

namespace nanofsdp::train {
namespace {

double at(std::int64_t it) {
  return learning_rate_at(TrainerOptions{}, it);
}  // the first 100 of 2000 steps are the warm-up

TEST(Schedule, WarmsUpInEqualStepsTheFirstOneNotZero) {
  EXPECT_DOUBLE_EQ(at(0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(at(99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(at(100), 1e-3);  // the maximum, reached once
  EXPECT_LT(at(101), 1e-3);
}

TEST(Schedule, FallsByACosine) {
  EXPECT_DOUBLE_EQ(at(1050), (1e-3 + 1e-4) / 2);                       // half of the way down
  EXPECT_DOUBLE_EQ(at(1525), 1e-4 + 9e-4 * (1 - std::sqrt(0.5)) / 2);  // three quarters of the way
  for (std::int64_t it = 100; it < 2000; ++it) ASSERT_LT(at(it + 1), at(it));
}

TEST(Schedule, EndsAtItsFloorAndStaysThere) {
  EXPECT_DOUBLE_EQ(at(2000), 1e-4);
  EXPECT_EQ(at(2001), 1e-4);
  EXPECT_EQ(at(1'000'000'000'000), 1e-4);
}

// These numbers were printed by nanoGPT's get_lr for its CPU recipe.
TEST(Schedule, IsNanoGPTs) {
  EXPECT_NEAR(at(1), 1.9801980198019803e-05, 1e-20);
  EXPECT_NEAR(at(250), 9.862301196726987e-04, 1e-18);
  EXPECT_NEAR(at(1999), 1.0000061514140841e-04, 1e-18);
}

TEST(Schedule, WithoutWarmUpStartsAtTheTop) {
  TrainerOptions o;
  o.warmup_iters = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(o, 0), 1e-3);
}

TEST(Schedule, StaysAtTheTopWithoutDecay) {
  TrainerOptions o;
  o.decay_lr = false;
  for (const std::int64_t it : {0, 99, 1000, 5000}) EXPECT_EQ(learning_rate_at(o, it), 1e-3);
}

}  // namespace
}  // namespace nanofsdp::train
