#pragma once

#include <cstdint>
#include <string_view>

#include "gpt/config.h"
#include "plan/outline.h"

namespace nanofsdp::plan {

/// @file
/// @brief Published language models, as PyTorch trains them, in outline. An outline states the
/// memory of activations and the cost of kernels as multiples of the model's sizes.
///
/// One kind is Llama (Touvron et al. 2023, arXiv 2302.13971): RMSNorm, rotary positions, SwiGLU,
/// and fewer heads of keys and values than of queries. The other is GPT as MosaicML trains it:
/// LayerNorm, GELU, one product for queries, keys and values, and a head that shares the
/// embedding's table. Attention is a fused kernel, which keeps no scores.

/// The shape of a model.
struct TransformerShape {
  std::string_view name;        ///< "llama-3-8b"
  bool is_llama = true;         ///< false: a GPT
  std::int64_t n_layer = 0;     ///< blocks
  std::int64_t n_embd = 0;      ///< width
  std::int64_t n_head = 0;      ///< heads of queries
  std::int64_t n_kv_head = 0;   ///< heads of keys and values
  std::int64_t n_inner = 0;     ///< width inside the MLP
  std::int64_t vocab_size = 0;  ///< number of different tokens
  std::int64_t block_size = 0;  ///< tokens of a row, if the user does not say another number
  bool tied = false;            ///< whether the head shares the embedding's table

  /// The width of keys, and of values.
  std::int64_t n_kv() const { return n_kv_head * (n_embd / n_head); }
};

/// For a published model, `selective` recomputes all but attention and every other product of a
/// block (torchtitan's per-op choice).
using gpt::Recompute;

/// How a program runs a model.
struct Practice {
  DType dtype = DType::bfloat16;          ///< dtype of activations
  Recompute recompute = Recompute::none;  ///< parts of blocks that backward computes again
  std::int64_t every = 1;                 ///< one block in this number of blocks computes again
  bool compiled = false;    ///< consecutive elementwise work is one kernel (torch.compile)
  bool fused_norm = false;  ///< a norm is one kernel, even if the rest is not compiled
  /// Whether the loss is one kernel, which reads the logits in the dtype of activations. Else
  /// logits, log-probabilities and both gradients are made in float32.
  bool fused_loss = false;
};

/// The model as layers for an Outline (outline.h). It turns tokens [B, T] into logits [B, T, V].
/// Each block is a unit.
Layer transformer(const TransformerShape& shape, const Practice& practice);

/// Models that people know by name: Llama 2 (arXiv 2307.09288) and 3 (arXiv 2407.21783), and
/// MosaicML's MPT.
inline constexpr TransformerShape kTransformers[] = {
    {"llama-2-7b", true, 32, 4096, 32, 32, 11'008, 32'000, 4096, false},
    {"llama-2-13b", true, 40, 5120, 40, 40, 13'824, 32'000, 4096, false},
    {"llama-2-34b", true, 48, 8192, 64, 8, 22'016, 32'000, 4096, false},
    {"llama-2-70b", true, 80, 8192, 64, 8, 28'672, 32'000, 4096, false},
    {"llama-3-1b", true, 16, 2048, 32, 8, 8192, 128'256, 8192, true},
    {"llama-3-3b", true, 28, 3072, 24, 8, 8192, 128'256, 8192, true},
    {"llama-3-8b", true, 32, 4096, 32, 8, 14'336, 128'256, 8192, false},
    {"llama-3-70b", true, 80, 8192, 64, 8, 28'672, 128'256, 8192, false},
    {"llama-3-405b", true, 126, 16'384, 128, 8, 53'248, 128'256, 8192, false},
    {"nanotron-1.3b", true, 16, 2048, 32, 32, 8192, 131'072, 4096, true},
    {"mpt-760m", false, 24, 1536, 12, 12, 6144, 50'368, 2048, true},
    {"mpt-1b", false, 24, 2048, 16, 16, 8192, 50'368, 2048, true},
    {"mpt-3b", false, 32, 2560, 20, 20, 10'240, 50'368, 2048, true},
    {"mpt-7b", false, 32, 4096, 32, 32, 16'384, 50'368, 2048, true},
    {"mpt-13b", false, 40, 5120, 40, 40, 20'480, 50'368, 2048, true},
    {"mpt-30b", false, 48, 7168, 56, 56, 28'672, 50'368, 2048, true},
    {"mpt-70b", false, 80, 8192, 64, 64, 32'768, 50'368, 2048, true},
};

/// The shape of the model with this name; null if the name is unknown.
const TransformerShape* find_transformer(std::string_view name);

}  // namespace nanofsdp::plan
