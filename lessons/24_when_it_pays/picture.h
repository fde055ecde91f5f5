#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 24.

namespace lesson {

/// Percent of a step that is exposed, for tokens 256, 512, 1024 ...
struct Line {
  int ranks;
  std::vector<double> percent;
};

/// Over the tokens a GPU, each doubling as wide as the other; a line for every number of ranks.
/// @param crossing the formula's tokens
inline Svg drawing(const std::vector<Line>& lines, double crossing) {
  const int left = 60, bottom = 370, step = 90;
  const auto at = [&](double tokens) {
    return left + static_cast<int>(step * std::log2(tokens / 256));
  };
  Svg svg(690, 425);
  svg.text(20, 20, "Llama 3 8B on H100, full_shard: exposed communication, % of a step");
  svg.line(at(crossing), 40, at(crossing), bottom, colour::ink);
  svg.text(at(crossing) + 6, 46, fmt::format("formula: S / B = {:.0f} tokens", crossing));
  for (int percent = 0; percent <= 100; percent += 25) {
    const int y = bottom - percent * 32 / 10;
    svg.line(left, y, left + 6 * step, y, colour::grey);
    svg.text(left - 8, y + 4, fmt::format("{} %", percent), Svg::At::end);
  }
  for (const Line& line : lines) {
    svg.curve(left, bottom, step, 3.2, line.percent, colour::ink);
    const int y = bottom - static_cast<int>(3.2 * line.percent[0]);
    svg.text(left + 4, y - 6, fmt::format("{} ranks", line.ranks));
  }
  for (std::int64_t tokens = 256; tokens <= 16'384; tokens *= 2) {
    svg.text(at(static_cast<double>(tokens)), bottom + 20, fmt::format("{}", tokens),
             Svg::At::middle);
  }
  svg.text(left + 3 * step, bottom + 42, "tokens a GPU in a micro-batch", Svg::At::middle);
  return svg;
}

}  // namespace lesson
