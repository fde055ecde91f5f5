#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Copies one parameter between its own memory and the rows of ranks that a collective
/// moves. A cast is the copy of one chunk to another dtype.
///
/// FSDP2 cuts a parameter into W chunks, one for each rank. A collective sends one shard for each
/// rank, and a shard holds the rank's chunk of every parameter. So the chunks of a parameter lie
/// one shard apart after an all-gather and before a reduce-scatter. In the whole parameter they lie
/// end to end:
///
///     row       | a0 b0 | a1 b1 | a2 b2 |        stride = a shard, first = a0, chunk = that of b
///     whole     | b0 b1 b2 |
///
/// Element e of the whole is in chunk q = e / chunk, at i = e % chunk:
///
///     whole[e] = row[q * stride + first + i],  or the other way
///
/// Twins: copy_chunks.cpp (CPU), copy_chunks.cu (CUDA). Both give the same bits. Widening
/// is exact; narrowing rounds to the nearest, ties to even.

/// A float8_e4m3 has 3 bits of mantissa, and a range of its own for each 128 elements. So a shard
/// in float8_e4m3 is a *message*: blocks of 128 elements, each with a scale. The last block may be
/// shorter. The sender divides by the scale and rounds, and the receiver multiplies by it:
///
///     scale    = largest magnitude in the block / 448, as float32
///     element  = to_float8(x * (448 / largest magnitude))
///     received = element * scale
///
/// Magnitudes below 2^-100 count as 2^-100, so that no factor overflows. If one element is infinite
/// or NaN, all elements of its block become NaN.

constexpr std::int64_t kFloat8Block = 128;  ///< elements that share a scale

/// One block of a message, 132 bytes.
struct Float8Block {
  float scale;                  ///< the factor of the elements
  float8_e4m3 x[kFloat8Block];  ///< the elements; a short block ends before the last one
};

/// The bytes of a message of n elements. They are a multiple of 4, so that every scale is aligned.
constexpr std::int64_t float8_bytes(std::int64_t n) {
  return (n + kFloat8Block - 1) / kFloat8Block * 4 + (n + 3) / 4 * 4;
}

/// Operands. Elements of the row between the chunks stay as they are.
struct CopyChunks {
  /// Float32 or bfloat16. A row that is read may also be float8_e4m3: then each shard is a message.
  Tensor row{};
  Tensor whole{};           ///< float32 or bfloat16; does not overlap the row
  std::int64_t first = 0;   ///< elements of a shard before its chunk
  std::int64_t chunk = 0;   ///< elements of a chunk; the last may be shorter
  std::int64_t stride = 0;  ///< elements of a shard
  bool into_row = false;    ///< whether the row is written, and not the whole
};

/// Operands of a cast. Their dtypes say which way it converts.
struct Cast {
  Tensor in{};               ///< in   float32, bfloat16, or messages of float8_e4m3
  Tensor out{};              ///< out  another of them, same numel, written
  std::int64_t message = 0;  ///< the elements of a message, if one of the two has messages
};

/// A copy costs the bytes of the copied elements, and no arithmetic.
inline Cost cost(const CopyChunks& a) {
  const Tensor row = a.row.slice(0, a.whole.numel());
  return a.into_row ? moves({a.whole}, {row}) : moves({row}, {a.whole});
}

/// A cast costs the bytes that it reads and writes, and no arithmetic.
inline Cost cost(const Cast& a) { return moves({a.in}, {a.out}); }

/// Enqueues the operator on `stream`. If the whole is empty, nothing is checked.
/// @throws ShapeError if the row ends before its last chunk does, or chunks overlap
void copy_chunks(Stream& stream, const CopyChunks& a);

/// Enqueues a cast on `stream`.
/// @throws ShapeError if the sizes differ or the dtypes are not one of each. Only a GPU widens
/// float8_e4m3 to bfloat16, and neither device rounds bfloat16 to it
void cast(Stream& stream, const Cast& a);

}  // namespace nanofsdp::ops
