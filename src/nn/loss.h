#pragma once

#include "nn/tape.h"

namespace nanofsdp::nn {

/// @file
/// @brief The loss of a language model: the cross-entropy of its logits against the next tokens.

/// Forward. Adds the sum of the tokens' losses to `total`, and saves what backward needs.
/// @param logits [B, T, V]  @param targets [B, T], int32, -1 to ignore  @param total [1], float64,
/// or empty
/// @throws ShapeError for other shapes; Error naming a target that is no token (a GPU stops the
///         kernel)
void cross_entropy(Tape& tape, Tensor logits, Tensor targets, Tensor total);

/// Backward. Computes d (scale * sum of losses) / d logits, and overwrites the logits with it.
/// @param scale 1 / (tokens of the whole step, on all ranks and in all micro-steps)
/// @returns [B, T, V]  @throws Error if the last tensors on the tape are not those of the forward
Tensor cross_entropy_backward(Tape& tape, float scale);

/// Forward and backward in one call. A GPU then reads the logits only once. Nothing is saved on the
/// tape.
/// @returns what cross_entropy_backward() returns
Tensor cross_entropy(Tape& tape, Tensor logits, Tensor targets, Tensor total, float scale);

}  // namespace nanofsdp::nn
