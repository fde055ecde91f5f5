#pragma once

#include "base/device.h"
#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Copies one parameter between its own memory and the rows of ranks that a collective
/// moves. A cast is the copy of one chunk to another dtype.
///
/// FSDP2 cuts a parameter into W chunks, one for each rank. A collective sends one row for each
/// rank, and a row holds the rank's chunk of every parameter. So the chunks of a parameter lie one
/// row apart after an all-gather and before a reduce-scatter. In the whole parameter they lie end
/// to end:
///
///     rows      | a0 b0 | a1 b1 | a2 b2 |        in_stride = a row, chunk = that of b
///     b         | b0 b1 b2 |                    out_stride = chunk
///
/// Element e of `numel` is in chunk q = e / chunk, at i = e % chunk:
///
///     out[q * out_stride + i] = in[q * in_stride + i]
///
/// Twins: copy_chunks.cpp (CPU), copy_chunks.cu (CUDA). Both give the same bits. Widening
/// is exact; narrowing rounds to the nearest, ties to even.

/// Operands. Elements of `out` between its chunks stay as they are.
struct CopyChunks {
  Tensor in{};                  ///< in   float32 or bfloat16; begins with its first chunk
  Tensor out{};                 ///< out  float32 or bfloat16, likewise; does not overlap `in`
  std::int64_t numel = 0;       ///< elements that are copied; if 0, nothing is checked
  std::int64_t chunk = 0;       ///< elements of a chunk; the last may be shorter
  std::int64_t in_stride = 0;   ///< elements from one chunk's begin to the next's, at least a chunk
  std::int64_t out_stride = 0;  ///< likewise
};

/// Operands of a cast. Their dtypes say which way it converts.
struct Cast {
  Tensor in{};   ///< in   float32 or bfloat16
  Tensor out{};  ///< out  the other of the two, same numel, written
};

/// A copy costs the bytes of the copied elements, and no arithmetic.
inline Cost cost(const CopyChunks& a) {
  return moves({a.in.slice(0, a.numel)}, {a.out.slice(0, a.numel)});
}

/// A cast costs the bytes that it reads and writes, and no arithmetic.
inline Cost cost(const Cast& a) { return moves({a.in}, {a.out}); }

/// Enqueues the operator on `stream`.
/// @throws ShapeError if a tensor ends before its last chunk does, or chunks overlap
void copy_chunks(Stream& stream, const CopyChunks& a);

/// Enqueues a cast on `stream`.
/// @throws ShapeError if the sizes differ or the dtypes are not one of each
void cast(Stream& stream, const Cast& a);

}  // namespace nanofsdp::ops
