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
