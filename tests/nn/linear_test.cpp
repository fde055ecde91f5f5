#include "nn/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/context.h"
#include "base/rng.h"
#include "nn/init.h"
#include "nn/tape.h"

namespace nanofsdp::nn {
namespace {

// A scalar has no last dimension that the layer could use.
TEST(Linear, RefusesAScalar) {
  Context context;
  Tape tape(context);
  tape.begin(true);
  Linear linear({.in = 1, .out = 1, .bias = false});
  float scalar = 1.0f;
  EXPECT_THROW(linear.forward(tape, Tensor(&scalar, Shape())), std::out_of_range);
}

TEST(Linear, StartsAsGpt2Does) {
  Linear linear({.in = 2, .out = 3});
  const auto parameters = linear.named_parameters();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0]->init.kind, Init::Kind::normal);
  EXPECT_EQ(parameters[0]->init.scale, 0.02);
  EXPECT_EQ(parameters[1]->init.kind, Init::Kind::zeros);
}

// Half of many uniform values lie on each side of zero, and all lie within the bound.
TEST(Init, IsUniformAroundZero) {
  std::vector<float> values(10'000);
  Generator generator(1);
  draw(generator, Init::uniform(0.5), values);
  const auto negative = std::ranges::count_if(values, [](float v) { return v < 0; });
  EXPECT_NEAR(static_cast<double>(negative), 5'000, 250);  // within five deviations
  const auto [least, most] = std::ranges::minmax(values);
  EXPECT_GE(least, -0.5f);
  EXPECT_LT(least, -0.49f);
  EXPECT_GT(most, 0.49f);
  EXPECT_LE(most, 0.5f);
}

}  // namespace
}  // namespace nanofsdp::nn
