#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief What the CPU operators ask of their operands, and how finely they share their loops.
///
/// Operands are named "operator: operand" in every message, as in "layer_norm: weight".

/// @throws ShapeError unless `t` is on the CPU with this shape and dtype
inline void require(const char* operand, const Tensor& t, const Shape& shape,
                    DType dtype = DType::float32) {
  const bool fits = t.shape() == shape && t.numel() == shape.numel() && t.dtype() == dtype;
  NANOFSDP_CHECK_SHAPE(
      fits && t.device() == Device::cpu, .what = operand,
      .expected = fmt::format("{} {} on the CPU", name_of(dtype), shape.str()),
      .got = t.raw() == nullptr && t.numel() == 0
                 ? "nothing"
                 : fmt::format("{} {}{}", name_of(t.dtype()), t.shape().str(),
                               t.device() == Device::cpu ? "" : " on another device"));
}

/// The shape does not matter, the number of elements does.
/// @throws ShapeError unless `t` is on the CPU with `numel` elements of this dtype
inline void require_numel(const char* operand, const Tensor& t, std::int64_t numel,
                          DType dtype = DType::float32) {
  NANOFSDP_CHECK_SHAPE(t.numel() == numel && t.dtype() == dtype && t.device() == Device::cpu,
                       .what = operand,
                       .expected = fmt::format("{} elements {} on the CPU", numel, name_of(dtype)),
                       .got = fmt::format("{} {}{}", t.numel(), name_of(t.dtype()),
                                          t.device() == Device::cpu ? "" : " on another device"));
}

/// @throws ShapeError unless `t` has `rank` dimensions
inline void require_rank(const char* operand, const Tensor& t, int rank) {
  NANOFSDP_CHECK_SHAPE(t.shape().rank() == rank, .what = operand,
                       .expected = fmt::format("{} dimensions", rank), .got = t.shape().str());
}

/// Grain of a parallel_for whose index stands for `elements` elements: below some 16 thousand
/// elements, microseconds of work, waking another thread costs more than it saves.
inline std::int64_t grain_of(std::int64_t elements = 1) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements));
}

/// Fetches n elements into the cache while others are computed with: loops that alternate between
/// memory and arithmetic would otherwise wait for the one, then for the other. Past the end: no
/// harm.
inline void prefetch(const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16) __builtin_prefetch(x + i);
}

}  // namespace nanofsdp::ops
