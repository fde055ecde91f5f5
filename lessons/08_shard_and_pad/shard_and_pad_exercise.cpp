#include "shard_and_pad_exercise.h"

#include <algorithm>

using nanofsdp::fsdp::Piece;
using nanofsdp::fsdp::Range;

Piece piece(Range parameter, Range shard) {
  // TODO(lesson 08): roughly 6 lines.
  return {.in_shard = shard, .in_parameter = parameter};
}

std::int64_t to_fetch(std::int64_t n, std::int64_t /*old_W*/, std::int64_t W,
                      std::int64_t /*rank*/) {
  // Roughly 6 lines.
  return n / W;
}
