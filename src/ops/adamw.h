#pragma once

#include <cmath>
#include <cstdint>

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief One AdamW step over a flat range (Loshchilov and Hutter 2019, arXiv 1711.05101). The
/// order of operations is that of PyTorch's single-tensor implementation, except for m: PyTorch
/// interpolates, which rounds in another way.
///
///     g = grad * grad_scale
///     param -= lr * weight_decay * param
///     m = beta1 * m + (1 - beta1) * g                v = beta2 * v + (1 - beta2) * g^2
///     param -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
///
/// The result of an element depends on that element alone, not on its place in the range. So no bit
/// changes if a parameter is cut into shards. The operands do not overlap.
///
/// Twins: adamw.cpp (a plain loop), adamw.cu (CUDA: a thread for each element, which reads
/// grad_scale on the device, so that the host need not wait for the norm). Both have the same
/// constants and operations in the same order, and differ by single roundings.

/// Operands of one step, float32 on one device, n elements each.
struct AdamW {
  Tensor param{};           ///< in, out  [n]
  Tensor grad{};            ///< in       [n]
  Tensor m{};               ///< in, out  [n], first moment
  Tensor v{};               ///< in, out  [n], second moment
  double lr = 0;            ///< learning rate
  double beta1 = 0.9;       ///< decay of m, in [0, 1)
  double beta2 = 0.999;     ///< decay of v, in [0, 1)
  double eps = 1e-8;        ///< keeps the quotient finite
  double weight_decay = 0;  ///< a step takes lr * weight_decay of param
  std::int64_t step = 1;    ///< counts from 1
  Tensor grad_scale{};      ///< in  [1], float32: the coefficient of clipping; empty: 1
};

/// The numbers that all elements of one step share, for both twins. As in PyTorch, they are
/// computed in double, and rounded once when they are combined with a tensor.
struct AdamWConstants {
  explicit AdamWConstants(const AdamW& a)
      : decay(static_cast<float>(1 - a.lr * a.weight_decay)),
        beta1(static_cast<float>(a.beta1)),
        rest1(static_cast<float>(1 - a.beta1)),
        beta2(static_cast<float>(a.beta2)),
        rest2(static_cast<float>(1 - a.beta2)),
        step_size(static_cast<float>(a.lr / correction(a.beta1, a.step))),
        root_correction2(static_cast<float>(std::sqrt(correction(a.beta2, a.step)))),
        eps(static_cast<float>(a.eps)) {}

  static double correction(double beta, std::int64_t step) {
    return 1 - std::pow(beta, static_cast<double>(step));
  }

  float decay, beta1, rest1, beta2, rest2, step_size, root_correction2, eps;
};

/// Each element costs fifteen operations, with a root and a quotient among them.
inline Cost cost(const AdamW& a) {
  return moves({a.param, a.grad, a.m, a.v}, {a.param, a.m, a.v}, 15);
}

/// Enqueues the operator on `stream`.
/// @throws ShapeError naming the operand that does not fit; Error for a step below 1, betas outside
///   [0, 1), and a learning rate, eps or decay below 0
void adamw(Stream& stream, const AdamW& a);

}  // namespace nanofsdp::ops
