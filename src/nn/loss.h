#pragma once

#include "nn/tape.h"

namespace nanofsdp::nn {

/// @file
/// @brief The loss of a model of language: cross-entropy of the logits against the next tokens.

/// Forward: adds the sum of the tokens' losses to `total`, and keeps what backward needs.
/// @param logits [B, T, V]  @param targets [B, T], int32, -1 to ignore  @param total [1], float64
/// @throws ShapeError for other shapes; Error naming a target that is no token (on a
///         GPU the kernel stops)
void cross_entropy(Tape& tape, Tensor logits, Tensor targets, Tensor total);

/// Backward: d (scale * sum of losses) / d logits, written over the logits.
/// @param scale 1 / (tokens of the whole step, on all ranks and in all micro-steps)
/// @returns [B, T, V]  @throws Error if the last tensors on the tape are not those of the forward
Tensor cross_entropy_backward(Tape& tape, float scale);

/// Both at once, for a training: on a GPU the logits are then read once, and stay where they are.
/// @returns as cross_entropy_backward(); nothing is saved on the tape
Tensor cross_entropy(Tape& tape, Tensor logits, Tensor targets, Tensor total, float scale);

}  // namespace nanofsdp::nn
