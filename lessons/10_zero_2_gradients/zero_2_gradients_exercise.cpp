#include "zero_2_gradients_exercise.h"

#include <algorithm>

using nanofsdp::Stream;
using nanofsdp::Tensor;
using nanofsdp::comm::Communicator;

void reduce_gradient([[maybe_unused]] Stream& stream, [[maybe_unused]] Communicator& world,
                     [[maybe_unused]] std::span<float> whole,
                     [[maybe_unused]] std::span<float> shard, [[maybe_unused]] bool first) {
  // TODO(lesson 10): roughly 6 lines.
}
