#pragma once

#include <cstdint>

namespace nanofsdp::gpt {

/// @file
/// @brief The sizes of a GPT.

/// nanoGPT's GPTConfig: its names and its defaults (GPT-2 124M, vocabulary padded to 64).
struct GPTConfig {
  std::int64_t block_size = 1024;   ///< positions
  std::int64_t vocab_size = 50304;  ///< tokens
  std::int64_t n_layer = 12;        ///< blocks
  std::int64_t n_head = 12;         ///< heads of each attention
  std::int64_t n_embd = 768;        ///< a multiple of n_head
  float dropout = 0;                ///< in [0, 1)
  bool bias = true;  ///< whether every LayerNorm, and every Linear except lm_head, has a bias
};

/// Backward needs activations that forward has computed. With `none`, forward keeps them all.
/// Otherwise backward computes some of them again: those of each block's MLP (`selective`), or all
/// except the input of each block (`block`).
enum class Recompute { none, selective, block };

}  // namespace nanofsdp::gpt
