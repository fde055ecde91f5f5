#include "nn/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/context.h"
#include "base/rng.h"
#include "nn/init.h"
#include "nn/layer_norm.h"
#include "nn/tape.h"
#include "support/tensors.h"
#include "support/whole_model.h"

namespace nanofsdp::nn {
namespace {

// A scalar has no last dimension that the layer could use.
TEST(Linear, RefusesAScalar) {
  Context context;
  Tape tape(context);
  tape.begin(true);
  Linear linear({.in = 1, .out = 1, .bias = false});
  float scalar = 1.0f;
  EXPECT_THROW(linear.forward(tape, Tensor(&scalar, Shape())), ShapeError);
}

TEST(Linear, StartsAsGpt2Does) {
  Linear linear({.in = 2, .out = 3});
  const auto parameters = linear.named_parameters();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0]->init.kind, Init::Kind::normal);
  EXPECT_EQ(parameters[0]->init.scale, 0.02);
  EXPECT_EQ(parameters[1]->init.kind, Init::Kind::zeros);
}

// Sizes may be 0, as in PyTorch: the sum of no products is 0.
TEST(Linear, OfNoInputsGivesItsBias) {
  for (const std::int64_t in : {0, 2}) {
    for (const std::int64_t out : {0, 3}) {
      Context context;
      Tape tape(context);
      Linear linear({.in = in, .out = out});
      testing::WholeModel memory(linear);
      std::ranges::fill(memory.parameters[1]->data.span<float>(), 7.0f);
      testing::Owned<float> x({2, 1, in}, 1.0f), dy({2, 1, out}, 1.0f);
      tape.begin(true);
      const Tensor y = linear.forward(tape, x);
      EXPECT_EQ(y.shape(), Shape({2, 1, out}));
      EXPECT_TRUE(std::ranges::all_of(y.span<float>(), [](float e) { return e == 7; }));
      const Tensor dx = linear.backward(tape, dy);
      tape.end_backward();
      EXPECT_EQ(dx.shape(), Shape({2, 1, in}));
      for (const auto i : {0, 1}) {
        const Tensor grad = memory.parameters[static_cast<std::size_t>(i)]->grad();
        EXPECT_TRUE(std::ranges::all_of(grad.span<float>(), [](float e) { return e == 2; }));
      }
    }
  }
}

TEST(LayerNorm, OfNoElementsGivesNone) {
  Context context;
  Tape tape(context);
  LayerNorm norm(0, true);
  testing::WholeModel memory(norm);
  testing::Owned<float> x({2, 3, 0}), dy({2, 3, 0});
  tape.begin(true);
  EXPECT_EQ(norm.forward(tape, x).shape(), x.shape);
  EXPECT_EQ(norm.backward(tape, dy).shape(), x.shape);
  tape.end_backward();
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
