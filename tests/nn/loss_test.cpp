#include "nn/loss.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::nn {
namespace {

// Each row of logits has one target, in the same place. Without that, a transposed tensor of
// targets would be taken.
TEST(Loss, HasATargetForEachRowInTheShapeOfTheLogits) {
  Context context;
  Tape tape(context);
  testing::Owned<double> total({1});
  const Shape shapes[] = {{6}, {2, 3}, {3, 2}, {1, 6}, {6, 1}, {2, 3, 1}, {1, 2, 3}};
  for (const Shape& rows : shapes) {
    testing::Owned<float> logits(rows.with(rows.rank(), 5));
    for (const Shape& shape : shapes) {
      testing::Owned<std::int32_t> targets(shape);
      for (const bool both : {false, true}) {
        const auto compute = [&] {
          both ? void(cross_entropy(tape, logits, targets, total, 1))
               : cross_entropy(tape, logits, targets, total);
        };
        tape.begin(/*training=*/true);
        if (shape == rows) {
          EXPECT_NO_THROW(compute());
        } else {
          testing::expect_error<ShapeError>(
              compute, "cross_entropy: targets: expected int32 " + rows.str() + " on the CPU");
        }
        tape.end();
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::nn
