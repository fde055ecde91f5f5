#include "hybrid_shard_exercise.h"

std::int64_t smallest_group(std::int64_t memory, std::int64_t n, std::int64_t other,
                            std::int64_t W) {
  for (std::int64_t F = 1; F <= W; ++F) {
    const std::int64_t shard = (n + F - 1) / F;
    if (W % F == 0 && 16 * shard + other <= memory) return F;
  }
  return 0;
}
