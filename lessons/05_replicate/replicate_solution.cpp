#include <algorithm>
#include <vector>

#include "replicate_exercise.h"

using nanofsdp::Stream;
using nanofsdp::Tensor;
using nanofsdp::comm::Communicator;

void share_gradient(Stream& stream, Communicator& world, std::span<float> gradient,
                    std::int64_t my_rows, std::int64_t all_rows) {
  const std::int64_t n = static_cast<std::int64_t>(gradient.size()), W = world.size();
  std::vector<float> row((n + W - 1) / W * W);  // ends in zeros, up to a multiple of W
  const float share = static_cast<float>(my_rows) / static_cast<float>(all_rows);
  std::ranges::transform(gradient, row.begin(), [&](float g) { return share * g; });
  world.all_reduce(stream, Tensor(row.data(), {std::ssize(row)}), nanofsdp::comm::ReduceOp::sum);
  std::copy_n(row.begin(), n, gradient.begin());
}
