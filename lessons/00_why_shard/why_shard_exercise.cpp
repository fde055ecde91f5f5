#include "why_shard_exercise.h"

std::int64_t fewest_ranks(std::int64_t n, std::int64_t kept, std::int64_t /*borrowed*/,
                          std::int64_t memory) {
  // TODO(lesson 00): roughly 3 lines.
  return n * kept / (memory + 1);
}
