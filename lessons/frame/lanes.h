#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "frame/svg.h"

namespace lesson {

/// @file
/// @brief Charts of time. Each thing that works has a lane, and each piece of work has a bar.

namespace colour {
inline constexpr std::string_view computation = grey;
}

/// Lanes one below the other. Times are whole numbers, from 0.
struct Chart {
  struct Bar {
    int lane, from, to;
    std::string_view fill;
    std::string words;  ///< written on the bar if it is wide enough
  };
  struct Mark {
    int at;
    std::string words;
  };
  std::string title{};
  std::vector<std::string> lanes{};  ///< names of the lanes, from above
  std::vector<Bar> bars{};
  std::vector<Mark> marks{};  ///< words above the lanes

  int end() const {
    int last = 0;
    for (const Bar& bar : bars) last = std::max(last, bar.to);
    return last;
  }
};

/// @param lines above all charts
/// @param unit  of time, at the axis, which all charts share
/// @param tick  time between two numbers at the axis
inline Svg timeline(const std::vector<std::string>& lines, const std::vector<Chart>& charts,
                    std::string_view unit, int tick) {
  constexpr int kLeft = 108, kWide = 350, kLane = 22;
  int end = 1, height = 20 + 18 * static_cast<int>(lines.size()) + 30;
  for (const Chart& chart : charts) {
    end = std::max(end, chart.end());
    height += 24 + (chart.marks.empty() ? 0 : 16) + kLane * static_cast<int>(chart.lanes.size());
  }
  Svg svg(kLeft + kWide + 18, height);
  const auto x = [&](int time) { return kLeft + time * kWide / end; };
  int y = 0;
  for (const std::string& line : lines) svg.text(8, y += 18, line);
  y += 6;
  for (const Chart& chart : charts) {
    svg.text(8, y += 18, chart.title);
    if (!chart.marks.empty()) y += 16;
    for (const auto& [at, words] : chart.marks) svg.text(x(at), y, words);
    y += 6;
    const int below = y + kLane * static_cast<int>(chart.lanes.size());
    for (int t = 0; t <= end; t += tick) svg.line(x(t), y, x(t), below, colour::grey);
    for (std::size_t i = 0; i < chart.lanes.size(); ++i) {
      svg.text(kLeft - 6, y + kLane * static_cast<int>(i) + 15, chart.lanes[i], Svg::At::end);
    }
    for (const auto& [lane, from, to, fill, words] : chart.bars) {
      const int left = x(from), width = x(to) - left, top = y + kLane * lane + 1;
      const int middle = left + width / 2, letters = 8 * static_cast<int>(words.size());
      if (width > 0) svg.rect(left, top, width, kLane - 2, fill);
      if (words.empty() || width < letters) continue;
      if (fill == colour::waiting) svg.rect(middle - letters / 2, top + 4, letters, 12, "#ffffff");
      svg.text(middle, top + 15, words, Svg::At::middle);
    }
    y = below;
  }
  svg.line(kLeft, y + 4, x(end), y + 4);
  for (int t = 0; t <= end; t += tick) {
    svg.line(x(t), y + 4, x(t), y + 9);
    svg.text(x(t), y + 22, std::to_string(t), Svg::At::middle);
  }
  svg.text(kLeft - 14, y + 22, unit, Svg::At::end);
  return svg;
}

/// Writes the picture of the reader's exercise beside the program that checks it, and says where.
/// The check of our solution writes to a file of its own.
inline void show_schedule(const std::string& program, std::string_view number, const Svg& svg) {
  const std::filesystem::path path(program);
  const bool ours = path.filename().string().starts_with("solution");
  const auto file =
      path.parent_path() / fmt::format("{}_schedule_{}.svg", ours ? "our" : "my", number);
  std::ofstream(file) << svg.text();
  fmt::print("Drawn: {}\n", file.string());
}

}  // namespace lesson
