#pragma once

#include "base/device.h"
#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Converts between float32 and bfloat16. Widening is exact; narrowing rounds to the
/// nearest, ties to even.
///
/// On both devices a cast is the copy of one chunk (copy_chunks.h).

/// Operands. Their dtypes say which way the operator converts.
struct Cast {
  Tensor in{};   ///< in   float32 or bfloat16
  Tensor out{};  ///< out  the other of the two, same numel, written
};

/// A cast costs the bytes that it reads and writes, and no arithmetic.
inline Cost cost(const Cast& a) { return moves({a.in}, {a.out}); }

/// Enqueues the operator on `stream`.
/// @throws ShapeError if the sizes differ or the dtypes are not one of each
void cast(Stream& stream, const Cast& a);

}  // namespace nanofsdp::ops
