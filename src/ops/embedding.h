#pragma once

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Looks up rows of a table by index.
///
///     y[n] = weight[index[n]]            dweight[index[n]] += dy[n]  for n = 0, 1, ..., N - 1
///
/// Backward adds rows that share an index in the order of n. So every run gives the same bits, and
/// so do both twins, embedding.cpp (Eigen) and embedding.cu (CUDA). On the CPU, an index outside
/// [0, V) is an error before anything is written. On CUDA it ends the kernel, and this process can
/// no longer use the GPU: the next call on the stream that looks for errors throws.

/// Shapes: N indices, a table of V rows of C elements.
struct EmbeddingForward {
  Tensor index{};   ///< in   [N], int32, each in [0, V)
  Tensor weight{};  ///< in   [V, C], on a GPU also bfloat16, as y or narrower
  Tensor y{};       ///< out  [N, C], written; on a GPU also bfloat16
};

/// The shapes are those of the forward pass.
struct EmbeddingBackward {
  Tensor index{};    ///< in   [N], int32
  Tensor dy{};       ///< in   [N, C], on a GPU also bfloat16
  Tensor dweight{};  ///< in, out  [V, C], float32, added to
};

/// Forward reads the rows that are looked up, and writes the same number of rows.
inline Cost cost(const EmbeddingForward& a) { return moves({a.y, a.index}, {a.y}); }
/// Backward also reads those rows of the gradient, and adds to them.
inline Cost cost(const EmbeddingBackward& a) { return moves({a.dy, a.dy, a.index}, {a.dy}, 1); }

/// Enqueues the operator on `stream`.
/// @throws ShapeError naming the operand that does not fit; CPU: Error naming an index outside [0,
/// V)
void embedding(Stream& stream, const EmbeddingForward& a);

/// @copydoc embedding(Stream&, const EmbeddingForward&)
void embedding(Stream& stream, const EmbeddingBackward& a);

}  // namespace nanofsdp::ops
