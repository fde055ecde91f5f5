#include "ops/embedding.h"

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

TEST(EmulatedEmbedding, AnIndexOutsideTheTableTraps) {
  for (const std::int32_t bad : {-1, 5, std::numeric_limits<std::int32_t>::min()}) {
    Owned<std::int32_t> index({4});
    index.values = {0, 4, bad, 1};
    Owned<float> weight = random_tensor({5, 3}, 1), y({4, 3});
    const auto forward = [&] {
      embedding(*stream_of(), EmbeddingForward{.index = index, .weight = weight, .y = y});
    };
    const auto backward = [&] {
      embedding(*stream_of(), EmbeddingBackward{.index = index, .dy = y, .dweight = weight});
    };
    expect_error<std::runtime_error>(forward, "trap");
    expect_error<std::runtime_error>(backward, "trap");
    EXPECT_EQ(weight.values, random_tensor({5, 3}, 1).values);
  }
}

}  // namespace
}  // namespace nanofsdp::ops
