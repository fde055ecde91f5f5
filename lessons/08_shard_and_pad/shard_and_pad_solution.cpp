#include <algorithm>

#include "shard_and_pad_exercise.h"

using nanofsdp::fsdp::Piece;
using nanofsdp::fsdp::Range;

Piece piece(Range parameter, Range shard) {
  const auto begin = std::max(parameter.begin, shard.begin);
  const auto end = std::min(parameter.end, shard.end);
  if (begin >= end) return {};  // they have no common part
  return {.in_shard = {begin - shard.begin, end - shard.begin},
          .in_parameter = {begin - parameter.begin, end - parameter.begin}};
}

// The elements of the row that a rank owns, without padding. A rank that does not exist yet would
// begin behind the last element.
static Range owned(std::int64_t n, std::int64_t W, std::int64_t rank) {
  const std::int64_t s = (n + W - 1) / W;
  return {std::min(n, rank * s), std::min(n, (rank + 1) * s)};
}

std::int64_t to_fetch(std::int64_t n, std::int64_t old_W, std::int64_t W, std::int64_t rank) {
  const Range now = owned(n, W, rank), before = owned(n, old_W, rank);
  return now.size() - piece(now, before).in_shard.size();
}
