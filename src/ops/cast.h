#pragma once

#include "base/device.h"
#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Between float32 and bfloat16: exact one way, to nearest even the other.
///
/// It is the copy of one chunk (copy_chunks.h), on either device.

/// Operands. The dtypes say which way.
struct Cast {
  Tensor in{};   ///< in   float32 or bfloat16
  Tensor out{};  ///< out  the other of the two, same numel, written
};

/// Bytes alone.
inline Cost cost(const Cast& a) { return moves({a.in}, {a.out}); }

/// Enqueues the operator on `stream`.
/// @throws ShapeError if the sizes differ or the dtypes are not one of each
void cast(Stream& stream, const Cast& a);

}  // namespace nanofsdp::ops
