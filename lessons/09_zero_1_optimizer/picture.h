#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "frame/separated.h"
#include "frame/svg.h"
#include "fsdp/sharded_parameters.h"

namespace lesson {

/// @file
/// @brief The memory of one unit on each rank when only the optimizer is sharded.

/// A bar is as long as its part of the unit's row, and as high as 4 bytes for each element: its
/// area is its bytes.
inline Svg picture_of_zero_1(const nanofsdp::fsdp::ShardedParameters& unit, int ranks) {
  const std::int64_t n = unit.layout().padded_numel();
  const auto x = [&](std::int64_t element) { return 65 + static_cast<int>(400 * element / n); };
  Svg svg(480, 452);
  svg.text(15, 18, fmt::format("What each of {} ranks keeps of one block", ranks));
  svg.text(15, 36, "(each bar: 4 bytes for each of its elements)");
  int y = 0;
  const auto bar = [&](std::int64_t begin, std::int64_t end, std::string_view fill,
                       std::string_view words) {
    svg.box(x(begin), y, x(end) - x(begin), 18, fill, words);
    y += 19;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    y = 50 + 88 * rank;
    svg.text(15, y + 32, fmt::format("rank {}", rank));
    const nanofsdp::fsdp::Range shard = unit.layout().shard_of(rank);
    bar(0, n, colour::parameters, "parameters");
    bar(0, n, colour::gradients, "gradients");
    for (const std::string_view name : {"moment m", "moment v"}) {
      bar(shard.begin, shard.end, colour::optimizer, name);
    }
  }
  for (int quarter = 0; quarter <= ranks; ++quarter) {
    const std::int64_t element = n * quarter / ranks;
    svg.line(x(element), 404, x(element), 410);
    svg.text(x(element), 424, separated(element),
             quarter == ranks ? Svg::At::end : Svg::At::middle);
  }
  svg.text(65, 444, "element of the block's row");
  return svg;
}

}  // namespace lesson
