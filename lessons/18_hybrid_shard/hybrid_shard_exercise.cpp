#include "hybrid_shard_exercise.h"

std::int64_t smallest_group(std::int64_t /*memory*/, std::int64_t /*n*/, std::int64_t /*other*/,
                            std::int64_t W) {
  // TODO(lesson 18): roughly 5 lines.
  return W;
}
