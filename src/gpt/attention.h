#pragma once

#include "gpt/config.h"
#include "nn/dropout.h"
#include "nn/linear.h"

namespace nanofsdp::gpt {

/// @file
/// @brief The attention of a GPT's layer, as a module.

/// Multi-head causal self-attention. c_attn makes queries, keys and values, and c_proj mixes the
/// results of the heads. Dropout is applied to the probabilities, and then to the output.
class CausalSelfAttention final : public nn::Module {
 public:
  /// Forward takes [B, T, C] and returns the same shape.
  explicit CausalSelfAttention(const GPTConfig& config);

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override;
  Tensor do_backward(nn::Tape& tape, Tensor dy) override;

  int heads_;
  float dropout_;
  nn::Linear c_attn_, c_proj_;
  nn::Dropout resid_dropout_;
};

}  // namespace nanofsdp::gpt
