#include "ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/errors.h"
#include "support/tensors.h"

// These tests are not among the operators' tests, because on a GPU a trap ends the process's use of
// CUDA.

namespace nanofsdp::ops {
namespace {

using testing::expect_error;
using testing::Owned;
using testing::random_tensor;
using testing::stream_of;

TEST(EmulatedCrossEntropy, ABadTargetTrapsBeforeItsRowIsWritten) {
  for (const std::int32_t bad : {-2, 5, std::numeric_limits<std::int32_t>::max()}) {
    Owned<float> logits = random_tensor({2, 5}, 1), loss({2}, -1), lse({2}, -1);
    const auto before = logits.values;
    Owned<bfloat16> narrow({2, 8});
    Owned<std::int32_t> of_eight({2}, bad == 5 ? 8 : bad);
    Owned<std::int32_t> target({2}, bad);
    const auto forward = [&] {
      cross_entropy(*stream_of(), CrossEntropyForward{logits, target, loss, lse, {}});
    };
    const auto backward = [&] {
      cross_entropy(*stream_of(), CrossEntropyBackward{logits, target, lse, 1});
    };
    const auto both = [&] {
      cross_entropy(*stream_of(), CrossEntropy{{narrow, of_eight, loss, lse, {}}, 1});
    };
    expect_error<std::runtime_error>(both, "trap");
    expect_error<std::runtime_error>(forward, "trap");
    expect_error<std::runtime_error>(backward, "trap");
    EXPECT_EQ(loss.values[0], -1);
    EXPECT_EQ(logits.values, before);
  }
}

}  // namespace
}  // namespace nanofsdp::ops
