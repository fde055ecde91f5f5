#pragma once

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Softmax and cross-entropy in one operator. The gradient takes the place of the logits.
///
///     lse[n] = log(sum over v of exp(logits[n, v]))      loss[n] = lse[n] - logits[n, target[n]]
///     dlogits[n, v] = scale * (exp(logits[n, v] - lse[n]) - [v == target[n]])
///
/// A row whose target is -1 has loss 0 and gradient 0 (nanoGPT's ignore_index).
///
/// Twins: cross_entropy.cpp (Eigen), cross_entropy.cu (CUDA: a block of threads for each row, which
/// finds maximum and sum together in one reading). They agree within 1e-5 relative L2. On CUDA the
/// logits may be bfloat16; then dlogits are rounded to bfloat16. Losses and lse are float32.

/// Shapes: N tokens, V of the vocabulary, at least 1.
struct CrossEntropyForward {
  Tensor logits{};  ///< in   [N, V]
  Tensor target{};  ///< in   [N], int32, each in [0, V) or -1
  Tensor loss{};    ///< out  [N], written
  Tensor lse{};     ///< out  [N], written; its rounding gives dlogits a relative error |lse| 2^-24
  Tensor total{};   ///< in, out  [1], float64, or empty: the sum of the losses is added to it
};

/// The shapes are those of the forward pass.
struct CrossEntropyBackward {
  Tensor logits{};  ///< in, out  [N, V]: becomes dlogits
  Tensor target{};  ///< in   [N], int32
  Tensor lse{};     ///< in   [N], from the forward pass
  float scale = 1;  ///< 1 / (tokens that share the loss): a mean is taken only here
};

/// Both directions at once: the logits become dlogits, the gradient of `scale` times the losses.
///
/// On CUDA a row of bfloat16 is read once and stays in registers until dlogits take its place, if
/// its V is a multiple of 8 and at most 57,344. For other rows the two directions run one after the
/// other.
struct CrossEntropy : CrossEntropyForward {
  float scale = 1;  ///< see CrossEntropyBackward
};

/// Each logit costs an exponential and two operations.
inline Cost cost(const CrossEntropyForward& a) {
  return moves({a.logits, a.target}, {a.loss, a.lse}, 20);
}
/// Each logit costs as much as in forward.
inline Cost cost(const CrossEntropyBackward& a) {
  return moves({a.logits, a.target, a.lse}, {a.logits}, 20);
}

/// A logit of bfloat16 costs two exponentials, and is read once and written once. For float32 the
/// two directions state their own costs.
inline Cost cost(const CrossEntropy& a) {
  return moves({a.logits, a.target}, {a.logits, a.loss, a.lse}, 40);
}

/// Enqueues the operator on `stream`.
/// @throws ShapeError naming the operand that does not fit; Error naming a target outside its range
/// (CUDA: the kernel stops, and what waits for the stream throws what CUDA says of that)
void cross_entropy(Stream& stream, const CrossEntropyForward& a);

/// @copydoc cross_entropy(Stream&, const CrossEntropyForward&)
void cross_entropy(Stream& stream, const CrossEntropyBackward& a);

/// @copydoc cross_entropy(Stream&, const CrossEntropyForward&)
void cross_entropy(Stream& stream, const CrossEntropy& a);

}  // namespace nanofsdp::ops
