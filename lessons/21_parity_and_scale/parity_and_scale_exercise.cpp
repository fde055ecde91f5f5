#include "parity_and_scale_exercise.h"

std::int64_t blocks_a_unit(std::int64_t /*memory*/, std::int64_t /*n*/, std::int64_t /*block*/,
                           std::int64_t /*root*/, std::int64_t /*W*/) {
  // TODO(lesson 21): roughly 9 lines.
  return 1;
}
