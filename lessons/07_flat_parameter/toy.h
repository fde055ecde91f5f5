#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "frame/svg.h"
#include "fsdp/layout.h"

namespace lesson {

/// @file
/// @brief The toy of lessons 07 and 08: three parameters, and how they are drawn.

inline const std::array<nanofsdp::fsdp::ParameterSpec, 3> kToy = {
    {{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}}};

/// Blue means parameters. A, B and C have three shades of it, and their names beside them.
inline constexpr std::array<std::string_view, 3> kShades = {"#56b4e9", "#9bd3f3", "#cfe9f9"};

/// The three matrices above, the row below.
/// @param at where each parameter begins in the row, and where the row ends
/// @param marked one element of C, counted from the start of the row
inline Svg picture_of_row(std::span<const std::int64_t> at, int marked) {
  const int lefts[] = {15, 150, 330}, side = 22, top = 54, cell = 18, row = 262;
  Svg svg(480, 330);
  svg.text(15, 18, "Three parameters, and the one row that stores them");
  // A frame of ink around the marked element, in the matrix and in the row.
  const auto element = [&](int e, int x, int y, int width, int height, std::size_t i) {
    const int frame = at[i] + e == marked ? 2 : 0;
    if (frame > 0) svg.rect(x, y, width, height, colour::ink);
    svg.box(x + frame, y + frame, width - 2 * frame, height - 2 * frame, kShades[i],
            std::to_string(e));
  };
  for (std::size_t i = 0; i < kToy.size(); ++i) {
    const auto columns = static_cast<int>(kToy[i].shape[1]),
               rows = static_cast<int>(kToy[i].shape[0]);
    const auto numel = static_cast<int>(kToy[i].numel()), begin = static_cast<int>(at[i]);
    svg.text(lefts[i], top - 8, fmt::format("{}({},{})", kToy[i].name, rows, columns));
    svg.line(lefts[i] + columns * side / 2, top + rows * side, 15 + cell * (2 * begin + numel) / 2,
             row - 20);
    svg.text(15 + cell * (2 * begin + numel) / 2, row - 6, kToy[i].name, Svg::At::middle);
    for (int e = 0; e < numel; ++e) {
      element(e, lefts[i] + side * (e % columns), top + side * (e / columns), side, side, i);
      element(e, 15 + cell * (begin + e), row, cell, 24, i);
    }
    svg.text(15 + cell * begin, row + 40, std::to_string(begin));
  }
  svg.text(lefts[2] + 2 * side + 6, top + 3 * side + 16, "C[3][1]");
  svg.text(15 + cell * marked, row + 40, std::to_string(marked));
  svg.text(15 + cell * static_cast<int>(at[3]), row + 40, std::to_string(at[3]), Svg::At::end);
  svg.text(15, row + 60, "element of the row, counted from 0");
  return svg;
}

}  // namespace lesson
