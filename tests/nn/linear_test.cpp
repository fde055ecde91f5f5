#include "nn/linear.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/context.h"
#include "nn/tape.h"

namespace nanofsdp::nn {
namespace {

// A scalar has no last dimension for the layer to work along.
TEST(Linear, RefusesAScalar) {
  Context context;
  Tape tape(context);
  tape.begin(true);
  Linear linear({.in = 1, .out = 1, .bias = false});
  float scalar = 1.0f;
  EXPECT_THROW(linear.forward(tape, Tensor(&scalar, Shape())), std::out_of_range);
}

}  // namespace
}  // namespace nanofsdp::nn
