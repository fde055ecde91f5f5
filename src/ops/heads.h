#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Heads side by side in the rows of a tensor: an operand of attention.

/// Head h, of width D, is columns [first + h * D, first + (h + 1) * D). A tensor of heads alone has
/// first = 0; packed rows [q, k, v] are one tensor and three values of `first`.
struct Heads {
  Tensor rows{};           ///< [B, T, any number of columns]
  std::int64_t first = 0;  ///< column where head 0 begins
  int heads = 1;           ///< how many, H
};

}  // namespace nanofsdp::ops
