#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/rng.h"
#include "base/tensor.h"

namespace lesson {

/// @file
/// @brief Tensors for lessons that do not care where they lie.

/// Makes tensors that live as long as this object, and a stream of one process to compute on.
class Memory {
 public:
  nanofsdp::Tensor zeros(nanofsdp::Shape shape) {
    return {all_.emplace_back(static_cast<std::size_t>(shape.numel())).data(), shape};
  }

  /// Makes normal random numbers; equal seeds give equal numbers.
  nanofsdp::Tensor random(nanofsdp::Shape shape, std::uint64_t seed = 1) {
    const nanofsdp::Tensor tensor = zeros(shape);
    nanofsdp::Generator(seed).normal(tensor.span<float>(), 0, 1);
    return tensor;
  }

  /// One row of tokens, [1, numel].
  nanofsdp::Tensor tokens(std::vector<std::int32_t> row) {
    const auto n = static_cast<std::int64_t>(row.size());
    return {tokens_.emplace_back(std::move(row)).data(), {1, n}, nanofsdp::DType::int32};
  }

  nanofsdp::Stream& stream() { return *context.compute; }

  nanofsdp::Context context;

 private:
  std::deque<std::vector<float>> all_;  // a deque does not move its elements when one is added
  std::deque<std::vector<std::int32_t>> tokens_;
};

}  // namespace lesson
