#include <algorithm>

#include "checkpoint_exercise.h"

nanofsdp::fsdp::Range files_to_read(std::int64_t n, std::int64_t savers, std::int64_t W,
                                    std::int64_t r) {
  const std::int64_t saved = (n + savers - 1) / savers;  // elements of a saved shard
  const std::int64_t wanted = (n + W - 1) / W;           // elements of a shard of mine
  const std::int64_t begin = r * wanted, end = std::min(n, begin + wanted);
  if (begin >= end) return {0, 0};
  return {begin / saved, (end - 1) / saved + 1};
}
