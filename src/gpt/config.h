#pragma once

#include <cmath>
#include <cstdint>

#include "nn/init.h"

namespace nanofsdp::gpt {

/// nanoGPT's GPTConfig: its names and its defaults (GPT-2 124M, vocabulary padded to 64).
struct GPTConfig {
  std::int64_t block_size = 1024;   ///< positions
  std::int64_t vocab_size = 50304;  ///< tokens
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::int64_t n_embd = 768;  ///< a multiple of n_head
  float dropout = 0;          ///< in [0, 1)
  bool bias = true;           ///< in every Linear and LayerNorm but lm_head
};

/// The weight of a c_proj adds to the residual path 2 * n_layer times over the depth: its deviation
/// is 0.02 / sqrt(2 * n_layer) (GPT-2 paper).
inline nn::Init residual_init(const GPTConfig& config) {
  return nn::Init::normal(0.02 / std::sqrt(2.0 * static_cast<double>(config.n_layer)));
}

}  // namespace nanofsdp::gpt
