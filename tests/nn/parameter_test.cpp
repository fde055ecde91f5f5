#include "nn/parameter.h"

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace nanofsdp::nn {
namespace {

// A parameter has a gradient only after a backward has added to it, and a frozen parameter never
// gets one.
TEST(Parameter, HasAGradientOnceBackwardHasAddedToIt) {
  Parameter weight({2}, Init::zeros());
  weight.grad_to_add_to();
  EXPECT_FALSE(weight.has_grad) << "there is no memory for one";
  testing::Owned<float> memory({2}, 3.0F);
  weight.show_grad(memory);
  EXPECT_EQ(weight.grad().f32()[1], 3);
  EXPECT_FALSE(weight.has_grad) << "to look is not to add";
  EXPECT_EQ(weight.grad_to_add_to().f32(), memory.values.data());
  EXPECT_TRUE(weight.has_grad);
}

}  // namespace
}  // namespace nanofsdp::nn
