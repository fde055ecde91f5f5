#include <algorithm>

#include "why_shard_exercise.h"

// The bytes of a rank in the moment in which it needs most: it keeps 16 bytes for each parameter of
// its shards. In backward it borrows the root and one block, for parameters and for gradients.
static std::int64_t bytes(const Model& m, std::int64_t W) {
  const auto shard = [&](std::int64_t n) { return (n + W - 1) / W; };
  return 16 * (m.blocks * shard(m.block) + shard(m.root)) + 2 * 4 * (m.block + m.root);
}

std::int64_t fewest_ranks(const Model& model, std::int64_t memory) {
  std::int64_t enough = std::max(model.block, model.root);  // shards of one parameter
  if (bytes(model, enough) > memory) return 0;              // and more ranks do not help
  std::int64_t few = 0;                                     // too few
  while (enough - few > 1) {  // more ranks never need more memory, so we may halve the distance
    const std::int64_t W = few + (enough - few) / 2;
    (bytes(model, W) <= memory ? enough : few) = W;
  }
  return enough;
}
