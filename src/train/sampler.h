#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "fsdp/fully_shard.h"
#include "nn/tape.h"

namespace nanofsdp::train {

/// @file
/// @brief nanoGPT's generate: it draws one token after the other from the model's probabilities.

struct SamplingOptions {
  std::int64_t max_new_tokens = 500;
  /// Positive. It divides the logits: below 1 likely tokens get likelier, above 1 less likely.
  double temperature = 0.8;
  std::int64_t top_k = 200;  ///< at least 1; only the k likeliest tokens are drawn
  /// Whether a cache keeps earlier positions, or each token computes them again.
  bool cached = true;
};

/// Continues `tokens` (at least one), and returns them together with the new tokens. The model sees
/// the last block_size tokens. While all tokens fit into this window, the model computes only the
/// newest token and reads the others from the cache. After that each new token moves the window,
/// which changes the position of every token in it, so the model computes all of them again.
/// Collective: every rank passes the same tokens and an equal generator, and gets the same result.
/// @param cache has block_size positions; its contents are dropped
std::vector<std::int32_t> generate(fsdp::ShardedModel& model, nn::Tape& tape,
                                   nn::KeyValueCache& cache, std::vector<std::int32_t> tokens,
                                   const SamplingOptions& options, Generator& generator);

}  // namespace nanofsdp::train
