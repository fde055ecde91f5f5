#pragma once

#include "base/device.h"
#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief One parameter between its own memory and the rows of ranks that a collective moves.
///
/// FSDP2 cuts a parameter into W chunks, one a rank. A collective sends one row a rank, which has
/// the rank's chunk of every parameter: after an all-gather the chunks of a parameter lie one row
/// apart, and so they must before a reduce-scatter. The whole parameter has them end to end:
///
///     rows      | a0 b0 | a1 b1 | a2 b2 |        in_stride = a row, chunk = that of b
///     b         | b0 b1 b2 |                    out_stride = chunk
///
/// Element e of `numel` is in chunk q = e / chunk, at i = e % chunk:
///
///     out[q * out_stride + i] = in[q * in_stride + i]
///
/// Twins: copy_chunks.cpp (CPU), copy_chunks.cu (CUDA), to the same bits, which are those of cast.

/// Operands. What lies between the chunks of `out` stays as it is.
struct CopyChunks {
  Tensor in{};             ///< in   float32 or bfloat16, from its first chunk on; may go further
  Tensor out{};            ///< out  float32 or bfloat16, likewise; not overlapping
  std::int64_t numel = 0;  ///< elements copied in all; of none, nothing else is looked at
  std::int64_t chunk = 0;  ///< elements of each chunk but the last, which may be shorter
  std::int64_t in_stride = 0;   ///< elements from one chunk's begin to the next's, at least a chunk
  std::int64_t out_stride = 0;  ///< likewise
};

/// Bytes alone, of the elements copied.
inline Cost cost(const CopyChunks& a) {
  return moves({a.in.slice(0, a.numel)}, {a.out.slice(0, a.numel)});
}

/// Enqueues the operator on `stream`.
/// @throws ShapeError if a tensor ends before its last chunk does, or chunks overlap
void copy_chunks(Stream& stream, const CopyChunks& a);

/// The CUDA side, in copy_chunks.cu, called with operands that have been checked.
namespace cuda {
void copy_chunks(Stream& stream, const CopyChunks& a);
}  // namespace cuda

}  // namespace nanofsdp::ops
