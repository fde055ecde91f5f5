#pragma once

#include "gpt/attention.h"
#include "nn/layer_norm.h"

namespace nanofsdp::gpt {

/// @file
/// @brief One layer of a GPT: attention, then an MLP. The result of each is added to its input.

/// c_proj(gelu(c_fc(x))), with four times as many features inside.
class MLP final : public nn::Module {
 public:
  /// Forward takes [B, T, C] and returns the same shape.
  explicit MLP(const GPTConfig& config);

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override;
  Tensor do_backward(nn::Tape& tape, Tensor dy) override;

  nn::Linear c_fc_, c_proj_;
  nn::Dropout dropout_;
};

/// x + attn(ln_1(x)), then x + mlp(ln_2(x)): one layer of the GPT, and one unit of FSDP. Backward
/// adds the gradient of the input into the memory of the output's gradient, because the residual
/// path passes that gradient on unchanged.
class Block final : public nn::Module {
 public:
  /// Forward takes [B, T, C] and returns the same shape.
  explicit Block(const GPTConfig& config);

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override;
  Tensor do_backward(nn::Tape& tape, Tensor dy) override;

  nn::LayerNorm ln_1_;
  CausalSelfAttention attn_;
  nn::LayerNorm ln_2_;
  MLP mlp_;
};

}  // namespace nanofsdp::gpt
