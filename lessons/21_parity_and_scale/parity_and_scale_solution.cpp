#include "parity_and_scale_exercise.h"

std::int64_t blocks_a_unit(std::int64_t memory, std::int64_t blocks, std::int64_t block,
                           std::int64_t root, std::int64_t W) {
  const auto shard = [&](std::int64_t numel) { return (numel + W - 1) / W; };
  for (std::int64_t k = blocks; k >= 1; --k) {
    const std::int64_t last = blocks % k;  // blocks of the last unit, if it has fewer; or 0
    const std::int64_t kept = blocks / k * shard(k * block) + shard(last * block) + shard(root);
    const int slots = k == blocks ? 1 : 2;  // a single unit takes turns with no other
    const std::int64_t whole = W * (slots * shard(k * block) + shard(root));
    if (16 * kept + 8 * whole <= memory) return k;
  }
  return 0;
}
