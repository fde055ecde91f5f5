#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nn/module.h"

namespace nanofsdp::plan {

/// @file
/// @brief A language model of somebody else's, as PyTorch trains it: which memory its activations
/// take and what its kernels cost, in numbers of one width. It cannot compute.
///
/// Llama (Touvron et al. 2023, arXiv 2302.13971): RMSNorm, rotary positions, SwiGLU, keys and
/// values for some of the heads. Or GPT as MosaicML trains it: LayerNorm, GELU, one product for
/// queries, keys and values, a head that is the embedding's table. Attention is a fused kernel,
/// which keeps no scores; the loss is taken in float32.

/// The shape of a model.
struct TransformerShape {
  std::string_view name;        ///< "llama-3-8b"
  bool is_llama = true;         ///< or a GPT
  std::int64_t n_layer = 0;     ///< blocks
  std::int64_t n_embd = 0;      ///< width
  std::int64_t n_head = 0;      ///< heads of queries
  std::int64_t n_kv_head = 0;   ///< heads of keys and values
  std::int64_t n_inner = 0;     ///< width inside the MLP
  std::int64_t vocab_size = 0;  ///< different tokens
  std::int64_t block_size = 0;  ///< tokens of a row, where nothing else is said
  bool tied = false;            ///< the head's table is the embedding's

  /// Width of keys, and of values.
  std::int64_t n_kv() const { return n_kv_head * (n_embd / n_head); }
};

/// What backward computes again instead of keeping it.
enum class Recompute {
  none,       ///< nothing
  selective,  ///< all but attention and every other product of a block (torchtitan's per-op choice)
  block       ///< everything but a block's input
};

/// How a model is run.
struct Practice {
  DType dtype = DType::bfloat16;          ///< of activations
  Recompute recompute = Recompute::none;  ///< of blocks
  std::int64_t every = 1;                 ///< of so many blocks, one recomputes
  bool compiled = false;    ///< elementwise work in sequence is one kernel (torch.compile)
  bool fused_norm = false;  ///< norms are, even where the rest is not
};

/// The model. Takes tokens [B, T], gives logits [B, T, V] in float32.
class Transformer final : public nn::Module {
 public:
  Transformer(const TransformerShape& shape, const Practice& practice);

  /// One layer: the usual unit.
  class Block;

 private:
  Tensor do_forward(nn::Tape& tape, Tensor tokens) override;
  Tensor do_backward(nn::Tape& tape, Tensor dlogits) override;

  TransformerShape shape_;
  Practice practice_;
  std::vector<std::unique_ptr<nn::Module>> blocks_;
};

/// Those that people know by name: Llama 2 (arXiv 2307.09288) and 3 (arXiv 2407.21783), and what
/// MosaicML calls MPT.
const std::vector<TransformerShape>& known_transformers();
/// One of them; null if nobody knows it.
const TransformerShape* find_transformer(std::string_view name);

/// Which modules of it, and of a GPT, are units.
bool is_block(const nn::Module& module);

}  // namespace nanofsdp::plan
