#include <gtest/gtest.h>

#include <vector>

#include "nn/linear.h"
#include "nn/module.h"
#include "nn/tape.h"
#include "support/errors.h"
#include "support/tensors.h"
#include "support/whole_model.h"

namespace nanofsdp::nn {
namespace {

using testing::expect_error;

// A pause ends as it began: it switches saving on for nobody.
TEST(Pause, LeavesSavingAsItFoundIt) {
  Context context;
  Tape tape(context);
  for (const bool training : {true, false}) {
    tape.begin(training);
    {
      const Tape::Pause outer(tape);
      { const Tape::Pause inner(tape); }
      EXPECT_FALSE(tape.saving()) << "the outer pause goes on";
    }
    EXPECT_EQ(tape.saving(), training);
    tape.end();
  }
}

TEST(Tape, RestoresAsManyAsWereSaved) {
  Context context;
  Tape tape(context);
  tape.begin(true);
  tape.save({tape.allocate({1}), tape.allocate({1})});
  expect_error<Error>([&] { tape.restore<1>(); }, "to restore 1 tensors");
}

TEST(Tape, BeginsNoPassWithinAnother) {
  Context context;
  Tape tape(context);
  tape.begin(true);
  tape.save({tape.allocate({1})});
  expect_error<Error>([&] { tape.begin(true); }, "1 saved activations");
  tape.end();
  tape.begin(true);
}

// Whoever calls a module may need the gradient of its output once more: for a residual, say.
TEST(Module, RecomputeLeavesTheGradientOfItsOutput) {
  Context context;
  Tape tape(context);
  Linear layer({.in = 4, .out = 4});
  layer.recompute = true;
  testing::WholeModel memory(layer);
  auto x = testing::random_tensor({3, 4}, 1), dy = testing::random_tensor({3, 4}, 2);
  const std::vector<float> before = dy.values;
  tape.begin(true);
  layer.forward(tape, x);
  layer.backward(tape, dy);
  tape.end_backward();
  EXPECT_EQ(dy.values, before);
}

}  // namespace
}  // namespace nanofsdp::nn
