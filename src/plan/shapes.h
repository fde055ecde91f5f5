#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fsdp/flat_layout.h"
#include "gpt/config.h"

namespace nanofsdp::plan {

/// @file
/// @brief Models before they have memory: the shapes of their parameters, unit by unit.

/// The parameters of each unit, the root's last.
using UnitShapes = std::vector<std::vector<fsdp::ParameterSpec>>;

/// nanoGPT, of whose blocks each is a unit.
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

}  // namespace nanofsdp::plan
