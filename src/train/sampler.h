#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "fsdp/fully_shard.h"
#include "nn/key_value_cache.h"
#include "nn/tape.h"

namespace nanofsdp::train {

/// @file
/// @brief nanoGPT's generate: one token after the other, each drawn from what the model expects.

struct SamplingOptions {
  std::int64_t max_new_tokens = 500;
  double temperature = 0.8;  ///< > 0; logits are divided by it: below 1 bolder, above 1 wilder
  std::int64_t top_k = 200;  ///< only the k likeliest tokens, at least 1
  bool cached = true;        ///< earlier positions are kept, rather than computed for each token
};

/// Continues `tokens` (at least one) and returns them with what was added. The model sees the last
/// block_size tokens. As long as these are all, it computes the new one alone and finds the others
/// in the cache; from then on each token moves the window, and with it the position of every token
/// in it, so that all are computed again. Collective: every rank passes the same tokens and an
/// equal generator, and gets the same result.
/// @param cache of block_size positions; what it holds is forgotten
std::vector<std::int32_t> generate(fsdp::ShardedModel& model, nn::Tape& tape,
                                   nn::KeyValueCache& cache, std::vector<std::int32_t> tokens,
                                   const SamplingOptions& options, Generator& generator);

}  // namespace nanofsdp::train
