#pragma once

#include <memory>
#include <vector>

#include "gpt/block.h"
#include "nn/embedding.h"

namespace nanofsdp::gpt {

/// @file
/// @brief The room `gpt`: nanoGPT, with nanoGPT's names. It does not depend on sharding.
///
/// Comes in: a configuration (config.h) and tokens. Goes out: logits, and in backward gradients.
/// For a model without values it also lists the draws of nanoGPT's initialization, in their order.

/// The part of a GPT below its head, under nanoGPT's name. It turns tokens [B, T] into features
/// [B, T, C].
class Transformer final : public nn::Module {
 public:
  /// Declares shapes only. The caller has checked the configuration.
  explicit Transformer(const GPTConfig& config);

  /// The table of the token embedding, [vocab_size, n_embd]. The head uses it too.
  const std::shared_ptr<nn::Parameter>& token_weight() const { return wte_.weight(); }
  /// The layers, in the order of forward.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return h_; }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor tokens) override;
  Tensor do_backward(nn::Tape& tape, Tensor dy) override;

  nn::Embedding wte_, wpe_;
  nn::Dropout drop_;
  std::vector<std::unique_ptr<Block>> h_;
  nn::LayerNorm ln_f_;
};

/// nanoGPT's GPT (Radford et al. 2019 in nanoGPT's names): it turns tokens [B, T], int32, into
/// logits [B, T, V]. The head has the same weight as the token embedding: a tied weight. The class
/// does not depend on sharding.
///
/// Decoding (Tape::begin_decoding) uses the same forward: the tokens [1, n] follow the positions
/// that the cache holds, and the logits [1, 1, V] are those of the last token.
///
/// Backward takes dlogits. Tokens have no gradient, so it returns an empty tensor.
class GPT final : public nn::Module {
 public:
  /// Declares shapes only. The owner of the parameters' memory provides it later.
  /// @throws UsageError if a size is not positive, if n_embd is not a multiple of n_head, or if
  ///   dropout is outside [0, 1)
  explicit GPT(const GPTConfig& config);

  const GPTConfig& config() const { return config_; }  ///< the configuration that it was made with
  /// The layers, in the order of forward: the usual units of FSDP.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return transformer_.blocks(); }

  /// All draws of nanoGPT's constructor, in its order. PyTorch's layers draw first. Then nanoGPT
  /// draws again: every weight, and the head's tied weight and each c_proj once more.
  nn::DrawPlan nanogpt_draws();

 private:
  Tensor do_forward(nn::Tape& tape, Tensor tokens) override;
  Tensor do_backward(nn::Tape& tape, Tensor dlogits) override;

  GPTConfig config_;
  Transformer transformer_;
  nn::Linear lm_head_;
};

}  // namespace nanofsdp::gpt
