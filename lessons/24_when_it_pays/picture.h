#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "frame/separated.h"
#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 24.

namespace lesson {

/// Percent of a step that is exposed, for 256, 512, 1024 ... tokens.
struct Line {
  int ranks;
  std::vector<double> percent;
};

/// A line for every number of ranks, over the tokens a GPU on a logarithmic axis.
/// @param crossing the formula's tokens
inline Svg drawing(const std::vector<Line>& lines, double crossing) {
  const int left = 56, bottom = 390, step = 56;
  const auto at = [&](double tokens) {
    return left + static_cast<int>(step * std::log2(tokens / 256));
  };
  Svg svg(430, 450);
  svg.text(16, 20, "Llama 3 8B on H100s, full_shard:");
  svg.text(16, 38, "exposed communication, % of a step");
  svg.line(at(crossing), 50, at(crossing), bottom, colour::ink);
  svg.text(at(crossing) + 6, 62,
           fmt::format("formula: {} tokens", separated(std::lround(crossing))));
  for (int percent = 0; percent <= 100; percent += 25) {
    const int y = bottom - percent * 32 / 10;
    svg.line(left, y, left + 6 * step, y, colour::grey);
    svg.text(left - 8, y + 4, fmt::format("{} %", percent), Svg::At::end);
  }
  for (const Line& line : lines) {
    svg.curve(left, bottom, step, 3.2, line.percent, colour::ink);
    const int y = bottom - static_cast<int>(3.2 * line.percent[0]);
    const bool lowest = &line == &lines.front();  // its name stands below it
    svg.text(left + (lowest ? 4 : 10), lowest ? y + 72 : y - 4,
             fmt::format("{} ranks", separated(line.ranks)));
  }
  for (std::int64_t tokens = 256; tokens <= 16'384; tokens *= 2) {
    svg.text(at(static_cast<double>(tokens)), bottom + 20, separated(tokens), Svg::At::middle);
  }
  svg.text(left + 3 * step, bottom + 44, "tokens a GPU in a micro-batch", Svg::At::middle);
  return svg;
}

}  // namespace lesson
