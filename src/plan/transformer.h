#pragma once

#include <cstdint>
#include <string_view>

#include "gpt/config.h"
#include "plan/outline.h"

namespace nanofsdp::plan {

/// @file
/// @brief A published language model, as PyTorch trains it, in outline: which memory its
/// activations take and what its kernels cost, in numbers of one width.
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

/// Of a published model, `selective` is all but attention and every other product of a block
/// (torchtitan's per-op choice).
using gpt::Recompute;

/// How a model is run.
struct Practice {
  DType dtype = DType::bfloat16;          ///< of activations
  Recompute recompute = Recompute::none;  ///< of blocks
  std::int64_t every = 1;                 ///< of so many blocks, one recomputes
  bool compiled = false;    ///< elementwise work in sequence is one kernel (torch.compile)
  bool fused_norm = false;  ///< norms are, even where the rest is not
};

/// The model, for an Outline (outline.h): tokens [B, T] to logits [B, T, V] in float32. Each block
/// is a unit.
Layer transformer(const TransformerShape& shape, const Practice& practice);

/// Those that people know by name: Llama 2 (arXiv 2307.09288) and 3 (arXiv 2407.21783), and what
/// MosaicML calls MPT.
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

/// One of them; null if the name is unknown.
const TransformerShape* find_transformer(std::string_view name);

}  // namespace nanofsdp::plan
