#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpt/block.h"
#include "gpt/config.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/init.h"
#include "nn/layer_norm.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace nanofsdp::gpt {

/// @file
/// @brief The room `gpt`: nanoGPT, in nanoGPT's names. Nothing in it knows of sharding.
///
/// Comes in: a configuration (config.h), tokens. Goes out: logits, and in backward gradients; for a
/// model without values the order in which nanoGPT draws them.

/// The part of a GPT below its head, under nanoGPT's name: tokens [B, T] to features [B, T, C].
class Transformer final : public nn::Module {
 public:
  /// Declares shapes only; the configuration has been checked.
  explicit Transformer(const GPTConfig& config);

  /// The token embedding's table, [vocab_size, n_embd], which the head shares.
  const std::shared_ptr<nn::Parameter>& token_weight() const { return wte_.weight(); }
  /// The layers, in the order of forward.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return h_; }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor tokens) override;
  Tensor do_backward(nn::Tape& tape, Tensor dy) override;

  nn::Embedding wte_;
  nn::Embedding wpe_;
  nn::Dropout drop_;
  std::vector<std::unique_ptr<Block>> h_;
  nn::LayerNorm ln_f_;
};

/// nanoGPT's GPT (Radford et al. 2019 in nanoGPT's names): tokens [B, T], int32, to logits
/// [B, T, V]. The head's weight is the token embedding's: a tied weight. Knows nothing of sharding.
///
/// Decoding (Tape::begin_decoding) is the same forward: the tokens [1, n] are those after the
/// positions that the cache holds, and the logits [1, 1, V] are the last one's.
///
/// Backward takes dlogits; the tokens have no gradient, so it returns an empty tensor.
class GPT final : public nn::Module {
 public:
  /// Declares shapes only; the owner of the parameters' memory gives it later.
  /// @throws UsageError if a size is not positive, or n_embd no multiple of n_head, or dropout
  ///         outside [0, 1)
  explicit GPT(const GPTConfig& config);

  const GPTConfig& config() const { return config_; }  ///< as it was made
  /// The layers, in the order of forward: the usual units of FSDP.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return transformer_.blocks(); }

  /// Every draw that nanoGPT's constructor makes, in its order: PyTorch's layers draw first, then
  /// nanoGPT draws again, the head's tied weight and each c_proj once more.
  nn::DrawPlan nanogpt_draws();

 private:
  Tensor do_forward(nn::Tape& tape, Tensor tokens) override;
  Tensor do_backward(nn::Tape& tape, Tensor dlogits) override;

  GPTConfig config_;
  Transformer transformer_;
  nn::Linear lm_head_;
};

}  // namespace nanofsdp::gpt
