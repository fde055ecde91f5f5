#pragma once

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Gaussian error linear unit, exact (Hendrycks and Gimpel 2016, arXiv 1606.08415; PyTorch's
/// default, not the tanh approximation).
///
///     y = x * Phi(x),  Phi(x) = (1 + erf(x / sqrt 2)) / 2
///     dx = dy * (Phi(x) + x * phi(x)),  phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
///
/// Twins: gelu.cpp (Eigen), gelu.cu (CUDA). Their erf and exp differ in the last bits. On a GPU the
/// operands of a call may also be bfloat16. Then each element is computed in float32, by a shorter
/// formula whose error is about 1e-7 |x|.

/// Operands are float32; on a GPU they may be bfloat16.
struct GeluForward {
  Tensor x{};  ///< in   any shape
  Tensor y{};  ///< out  same shape, written
};

/// All operands have the same shape and dtype, as in the forward pass.
struct GeluBackward {
  Tensor dy{};  ///< in
  Tensor x{};   ///< in
  Tensor dx{};  ///< out, written; may alias dy
};

/// Each element costs about forty operations, nearly all of them for erf.
inline Cost cost(const GeluForward& a) { return moves({a.x}, {a.y}, 40); }
/// Each element costs about sixty operations: backward computes an exponential, too.
inline Cost cost(const GeluBackward& a) { return moves({a.dy, a.x}, {a.dx}, 60); }

/// Enqueues the operator on `stream`.
/// @throws ShapeError naming the operand that does not fit
void gelu(Stream& stream, const GeluForward& a);

/// @copydoc gelu(Stream&, const GeluForward&)
void gelu(Stream& stream, const GeluBackward& a);

}  // namespace nanofsdp::ops
