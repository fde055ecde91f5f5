#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fsdp/plan.h"
#include "gpt/config.h"
#include "train/options.h"

namespace nanofsdp::train {

/// @file
/// @brief What a training will hold and move, before there is a model: for --explain, and for
/// `nanofsdp plan`, the calculator.

/// The model that the options ask for.
gpt::GPTConfig config_of(const TrainOptions& options, std::int64_t vocab_size);

/// How the trainer shards: each block is a unit, gradients are summed.
fsdp::Options fsdp_options(const TrainOptions& options);

/// fsdp::plan(), and what lies outside the sharded model: the sums of norm and losses, and what
/// Gloo receives in.
fsdp::Plan plan_training(std::span<const fsdp::FlatLayout> layouts, const TrainOptions& options,
                         const fsdp::Workload& workload);

/// A model as FSDP sees it before it has memory: the parameters of each unit, the root's last.
using UnitShapes = std::vector<std::vector<fsdp::ParameterSpec>>;

/// Ours.
UnitShapes gpt_shapes(const gpt::GPTConfig& config);

/// Llama 2 (Touvron et al. 2023, arXiv 2307.09288), whose head is not tied.
struct LlamaConfig {
  std::int64_t n_layer;
  std::int64_t n_embd;
  std::int64_t n_kv;     ///< width of keys and values: less than n_embd if heads share them
  std::int64_t n_inner;  ///< width inside the MLP
  std::int64_t vocab_size = 32'000;
};
inline constexpr LlamaConfig kLlama7B{32, 4096, 4096, 11'008};
inline constexpr LlamaConfig kLlama70B{80, 8192, 1024, 28'672};
UnitShapes llama_shapes(const LlamaConfig& config);

/// So many parameters, and no more is known: units of `unit`, and the rest in the root.
UnitShapes bare_shapes(std::int64_t numel, std::int64_t unit);

/// Units of `blocks` units each; the root as it is.
UnitShapes merged(UnitShapes units, std::int64_t blocks);

}  // namespace nanofsdp::train
