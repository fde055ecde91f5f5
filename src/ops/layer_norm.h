#pragma once

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Layer normalisation over the last dimension, forward and backward.
///
/// For each row x of length C, as in PyTorch's LayerNorm (Ba, Kiros and Hinton 2016, arXiv
/// 1607.06450):
///
///     mean = sum(x) / C              var = sum((x - mean)^2) / C          (biased)
///     rstd = 1 / sqrt(var + eps)     n   = (x - mean) * rstd              y = n * weight + bias
///
/// Backward, with g = dy * weight:
///
///     dx = rstd * (g - mean_C(g) - n * mean_C(g * n))
///     dweight += sum over rows of dy * n                  dbias += sum over rows of dy
///
/// Only mean and rstd are kept for backward: two numbers for each row instead of C. Backward
/// computes n again.
///
/// Twins: layer_norm.cpp (Eigen), layer_norm.cu (CUDA: a warp for each row, or several warps for a
/// long one). The stream's device picks the twin; every tensor lives on it. The same input gives
/// the same bits on every run; the twins agree within 1e-5 relative L2 in float32. On a GPU x, y,
/// dy and dx may be bfloat16, all of them in one call together. The operator computes and sums in
/// float32. Lesson 02 teaches it.

/// PyTorch's default.
inline constexpr float kLayerNormEps = 1e-5f;

/// Shapes: R rows of C elements, on a GPU at most 16,384. `bias` and `dbias` may be empty (a model
/// without biases).
struct LayerNormForward {
  Tensor x{};       ///< in   [R, C]
  Tensor weight{};  ///< in   [C], on a GPU also bfloat16, as x or narrower
  Tensor bias{};    ///< in   [C] or empty, of the weight's dtype
  Tensor y{};       ///< out  [R, C]; may alias x
  Tensor mean{};    ///< out  [R], float32
  Tensor rstd{};    ///< out  [R], float32
};

/// The shapes are those of the forward pass.
struct LayerNormBackward {
  Tensor dy{};       ///< in   [R, C]
  Tensor x{};        ///< in   [R, C]
  Tensor weight{};   ///< in   [C], on a GPU also bfloat16, as x or narrower
  Tensor mean{};     ///< in   [R], from the forward pass
  Tensor rstd{};     ///< in   [R], from the forward pass
  Tensor dx{};       ///< out  [R, C], written; may alias dy
  Tensor dweight{};  ///< in, out  [C], added to; empty if it is not needed
  Tensor dbias{};    ///< in, out  [C] or empty, added to
};

/// Each element costs eight operations.
inline Cost cost(const LayerNormForward& a) {
  return moves({a.x, a.weight, a.bias}, {a.y, a.mean, a.rstd}, 8);
}
/// Each element costs fourteen operations, including those for dweight and dbias.
inline Cost cost(const LayerNormBackward& a) {
  return moves({a.dy, a.x, a.weight, a.mean, a.rstd, a.dweight, a.dbias},
               {a.dx, a.dweight, a.dbias}, 14);
}

/// Enqueues the operator on `stream` (on the CPU: runs it).
/// @param stream where the work is ordered
/// @param a operands, named at the call: `layer_norm(stream, {.x = h, .weight = w, ...})`
/// @throws ShapeError naming the operand whose shape, dtype or device does not fit
void layer_norm(Stream& stream, const LayerNormForward& a);

/// @copydoc layer_norm(Stream&, const LayerNormForward&)
void layer_norm(Stream& stream, const LayerNormBackward& a);

}  // namespace nanofsdp::ops
