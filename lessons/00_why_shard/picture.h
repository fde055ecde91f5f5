#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 00: what each rank holds at the moments of one step.

namespace lesson {

/// The elements of one unit on a rank.
struct Held {
  std::string unit;             ///< "root", "h.0"
  std::int64_t whole = 0;       ///< elements of the whole unit
  std::int64_t shard = 0;       ///< elements of a rank's shard
  std::int64_t parameters = 0;  ///< elements that this rank can read now
  std::int64_t gradients = 0;   ///< the same for gradients
};

/// The elements of all units on a rank at one moment of a step.
struct Moment {
  std::string when;
  std::vector<Held> units;  ///< the root last
};

/// The moment as a row of a table, the root first.
inline std::string line(const Moment& moment) {
  std::string row = fmt::format("{:<16}{:>7}", moment.when, moment.units.back().parameters);
  const std::size_t blocks = moment.units.size() - 1;
  for (std::size_t u = 0; u < blocks; ++u) row += fmt::format("{:>7}", moment.units[u].parameters);
  row += fmt::format("{:>7}", moment.units.back().gradients);
  for (std::size_t u = 0; u < blocks; ++u) row += fmt::format("{:>7}", moment.units[u].gradients);
  return row;
}

/// A frame for each moment, one below the other. In a frame: a column for each rank, a row for each
/// unit, a bar for parameters, gradients and moments; full, a bar is the whole unit.
inline Svg drawing(const std::vector<std::vector<Moment>>& ranks) {
  using namespace colour;
  constexpr int kBar = 32, kRank = 112, kLeft = 46, kFrame = 88, kTop = 96;
  const std::array captions = {
      "1. At rest: a rank holds its shards",          "2. Forward: gather root and h.0, compute",
      "3. Forward: discard h.0, gather h.1, compute", "4. Backward: gather h.1 again, compute",
      "5. Discard, reduce-scatter h.1; gather h.0",   "6. After backward: gradient shards",
      "7. AdamW updates each rank's shards"};
  const int W = static_cast<int>(ranks.size());
  Svg svg(kLeft + W * kRank, kTop + kFrame * static_cast<int>(captions.size()));
  svg.text(8, 18, "One sharded step: what each of 4 ranks holds");
  int x = 8;
  for (const auto& [fill, word] : {std::pair{parameters, "par: parameters"},
                                   {gradients, "grad: gradients"},
                                   {optimizer, "opt: Adam's moments"}}) {
    svg.rect(x, 28, 12, 12, fill);
    svg.text(x + 16, 39, word);
    x += 150;
  }
  svg.rect(8, 48, 12, 12, all_gather), svg.text(24, 59, "frame: all-gathered");
  svg.rect(178, 48, 12, 12, reduce_scatter), svg.text(194, 59, "frame: reduce-scattered");
  const std::array bars = {"par", "grad", "opt"};
  for (int r = 0; r < W; ++r) {
    svg.text(kLeft + kRank * r, 82, fmt::format("rank {}", r));
    for (int bar = 0; bar < 3; ++bar) {
      svg.text(kLeft + kRank * r + 35 * bar + kBar / 2, 96, bars[bar], Svg::At::middle);
    }
  }
  for (std::size_t m = 0; m < captions.size(); ++m) {
    const int top = kTop + kFrame * static_cast<int>(m);
    svg.text(8, top + 22, captions[m]);
    for (int r = 0; r < W; ++r) {
      for (std::size_t row = 0; row < 3; ++row) {
        const std::size_t u = (row + 2) % 3;  // the root, which is the last unit, on top
        const Held& held = ranks[r][m].units[u];
        const int y = top + 32 + 18 * static_cast<int>(row);
        if (r == 0) svg.text(8, y + 10, held.unit);
        const auto bar = [&](int number, std::int64_t elements, std::string_view fill,
                             std::string_view frame) {
          const int left = kLeft + kRank * r + 35 * number;
          svg.line(left, y + 12, left + kBar, y + 12, grey);
          const bool whole = elements == held.whole;
          const int begin = whole ? left : left + r * kBar / W, width = whole ? kBar : kBar / W;
          if (!frame.empty()) svg.rect(begin - 2, y - 2, width + 4, 16, frame);
          svg.rect(begin, y, width, 12, fill);
        };
        const bool reduced = m > 0 && held.gradients == held.shard &&
                             ranks[r][m - 1].units[u].gradients == held.whole;
        bar(0, held.parameters, parameters, held.parameters == held.whole ? all_gather : "");
        bar(1, held.gradients, gradients, reduced ? reduce_scatter : "");
        bar(2, held.shard, optimizer, "");
      }
    }
  }
  return svg;
}

}  // namespace lesson
