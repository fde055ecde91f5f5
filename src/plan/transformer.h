#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
/// embedding's table; GPT-2 has the same parts.
///
/// A model may be divided over a tensor group, as Megatron-LM does it (arXiv 1909.08053,
/// 2205.05198). Then the outline is one rank's part. The rank has some of the heads, a part of the
/// MLP's inner width, and some rows of the tables of tokens. Norms and positions are replicated.
/// Each block has two all-reduces in forward and two in backward; tables and the head have one in
/// each. The tokens between the matrices are divided, too (sequence parallelism): the two halves of
/// an all-reduce are then a reduce-scatter and an all-gather at different places, which send the
/// same bytes.

/// The shape of a model.
struct TransformerShape {
  std::string name;             ///< "llama-3-8b"
  std::string kernels;          ///< set of kernels that usually runs it (data/help/kernels.txt)
  bool is_llama = true;         ///< false: a GPT
  std::int64_t n_layer = 0;     ///< blocks
  std::int64_t n_embd = 0;      ///< width
  std::int64_t n_head = 0;      ///< heads of queries
  std::int64_t n_kv_head = 0;   ///< heads of keys and values
  std::int64_t n_inner = 0;     ///< width inside the MLP
  std::int64_t vocab_size = 0;  ///< number of different tokens
  std::int64_t block_size = 0;  ///< tokens of a row; a GPT has as many positions
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
  int tensor = 1;                         ///< T: ranks of a tensor group
  double every = 1;  ///< one block in this number of blocks computes again; 1.5: two of three
  /// Its kernel: "ours", or a name in Machine::attentions. "plain" keeps its scores.
  std::string attention = "ours";
  bool compiled = false;    ///< consecutive elementwise work is one kernel (torch.compile)
  bool fused_norm = false;  ///< a norm is one kernel, even if the rest is not compiled
  /// Whether the loss is one kernel, which reads the logits in the dtype of activations. Else
  /// logits, log-probabilities and both gradients are made in float32.
  bool fused_loss = false;
};

/// One rank's part of the model as layers for an Outline (outline.h). It turns tokens [B, T] into
/// the rank's logits [B, T, V / tensor]. Each block is a unit.
Layer transformer(const TransformerShape& shape, const Practice& practice);

/// Models that people know by name: Llama 2 (arXiv 2307.09288) and 3 (arXiv 2407.21783), OLMo 2,
/// MosaicML's MPT, and GPT-2. data/models.txt has their shapes.
std::vector<TransformerShape> transformers();

/// The words of a text, which have blanks or ends of lines between them.
std::vector<std::string> words_in(std::string_view text);

/// The shape of the model with this name; none if the name is unknown.
std::optional<TransformerShape> find_transformer(std::string_view name);

}  // namespace nanofsdp::plan
