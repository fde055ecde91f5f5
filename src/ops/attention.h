#pragma once

#include <cstdint>

#include "base/dropout_key.h"
#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Causal self-attention, also with fewer keys and values than queries; forward and
/// backward.
///
/// For each sequence and each of H heads of width D = C / H (Vaswani et al. 2017, arXiv
/// 1706.03762):
///
///     S = Q K^T / sqrt(D)        P[i, j] = exp(S[i, j] - lse[i]) for j <= i, 0 above the diagonal
///     lse[i] = log(sum over j <= i of exp(S[i, j]))              O = dropout(P) V
///
/// Backward, with delta[i] = sum over D of dO[i] * O[i]:
///
///     dV = dropout(P)^T dO       dP = dropout(dO V^T)            dS = P * (dP - delta)
///     dQ = dS K / sqrt(D)        dK = dS^T Q / sqrt(D)
///
/// Grouped queries (Ainslie et al. 2023, arXiv 2305.13245): there are H query heads and H_kv heads
/// of keys and values, H_kv divides H, and query head h reads key/value head h / (H / H_kv). dK and
/// dV are the sums over the query heads that read the head.
///
/// The operator takes queries in blocks, and for each block only the keys up to its end. So there
/// is no mask tensor and no full score matrix. Only O and lse are kept for backward, which computes
/// P again.
///
/// Twins: attention.cpp (Eigen) keeps the scores of a block of queries with all its keys in
/// scratch. attention.cu (CUDA) keeps 64 x 64 of them at a time in the block's own memory and
/// leaves scratch alone (ask for that of one thread); its heads have at most 128 features. On CUDA
/// q, k, v, y and their gradients may all be bfloat16; lse is float32. Heads of 64 or 128 bfloat16
/// features use the kernels of flash/ if their rows begin at multiples of 16 bytes, and there are
/// fewer than 65,536 sequences. These kernels round the factors of products to bfloat16. All other
/// heads use attention.cu, which rounds only its results.
///
/// A dropout mask depends only on the global row and on the element (base/dropout_key.h). Sequence
/// b is row key.first_row + b of the key, and P[i, j] of head h is element (h * T + i) * T + j,
/// modulo 2^32.
///
/// One task owns a key/value head of a sequence, together with all query heads that read it.
/// Backward adds the contributions of these query heads in their order. So the bits depend neither
/// on the number of threads (at most B * H_kv of them are busy) nor on the other sequences of the
/// batch. At one T, and as long as all values are finite, the bits of a position's y and lse depend
/// on no later position.
///
/// Both directions have operands of the same names, so a call names its struct:
/// `attention(stream, AttentionForward{.q = ...})`.

/// Heads side by side in the rows of a tensor. Head h, of width D, has columns
/// [first + h * D, first + (h + 1) * D). If the tensor has only these heads, `first` is 0. Packed
/// rows [q, k, v] are one tensor with three values of `first`.
struct Heads {
  Tensor rows{};           ///< [B, T, any number of columns]
  std::int64_t first = 0;  ///< column where head 0 begins
  int heads = 1;           ///< number of heads, H
};

/// Shapes: B sequences of T positions, C = H * D features; n = T - first, which is T in training.
struct AttentionForward {
  Heads q{};               ///< in   H heads
  Heads k{}, v{};          ///< in   H_kv heads
  Tensor y{};              ///< out  [B, n, C], written; its width says what D is
  Tensor lse{};            ///< out  [B, H, n], written
  Tensor scratch{};        ///< [attention_scratch_numel(...)]; the operator overwrites it
  float dropout = 0;       ///< probability of dropping an element of P
  DropoutKey key{};        ///< decides the mask
  std::int64_t first = 0;  ///< queries begin at this position; keys at 0
};

/// The shapes are those of the forward pass, with first = 0.
struct AttentionBackward {
  Tensor dy{};             ///< in   [B, T, C]
  Heads q{}, k{}, v{};     ///< in   as in the forward pass
  Tensor y{};              ///< in   [B, T, C], from the forward pass
  Tensor lse{};            ///< in   [B, H, T], from the forward pass
  Heads dq{}, dk{}, dv{};  ///< out  H, H_kv, H_kv heads, written; no other column is
  Tensor scratch{};        ///< see AttentionForward
  float dropout = 0;       ///< see AttentionForward
  DropoutKey key{};        ///< see AttentionForward
};

/// Elements of scratch that each direction needs for sequences of T positions on `threads` threads
/// (Stream::threads(); on CUDA 1).
std::int64_t attention_scratch_numel(std::int64_t T, int threads);

/// A query reads the keys up to its own position. Each such pair costs 2 D operations for its
/// score, 2 D for its share of y, and an exponential.
/// @param products how many products of 2 D operations a pair takes
/// @param rows_read how many tensors as large as y are read, beside k and v
/// @param rows_written how many are written; backward writes dk and dv, too
template <class Operands>
Cost attention_cost(const Operands& a, int products, int rows_read, int rows_written) {
  const auto n = static_cast<double>(a.y.dim(1)), T = static_cast<double>(a.q.rows.dim(1));
  const double pairs = static_cast<double>(a.y.dim(0)) * (n * (T - n) + n * (n + 1) / 2);
  const double bytes = moves({a.y}, {}).read, keys_and_values = 2 * bytes * a.k.heads / a.q.heads;
  const double sums = moves({a.lse}, {}).read, more = products > 2 ? keys_and_values : sums;
  const double out = rows_written * bytes + more;
  return {.narrowest = T,
          .bfloat16 = a.q.rows.dtype() == DType::bfloat16,
          .attention = 2.0 * products * pairs * static_cast<double>(a.y.dim(2)),
          .flops = 20 * pairs * a.q.heads,
          .read = rows_read * bytes + keys_and_values * T / n + (products > 2 ? sums : 0),
          .written = out,
          .overwritten = out};
}
/// Forward reads q, k and v, and writes y and lse.
inline Cost cost(const AttentionForward& a) { return attention_cost(a, 2, 1, 1); }
/// Backward takes five products: it computes the scores again. It reads all of that and writes dq,
/// dk and dv.
inline Cost cost(const AttentionBackward& a) { return attention_cost(a, 5, 3, 1); }

/// Enqueues the operator on `stream`.
/// @throws ShapeError naming the operand that does not fit, or heads too wide for CUDA
void attention(Stream& stream, const AttentionForward& a);

/// @copydoc attention(Stream&, const AttentionForward&)
void attention(Stream& stream, const AttentionBackward& a);

}  // namespace nanofsdp::ops
