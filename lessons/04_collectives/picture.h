#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 04: four ranks and four chunks, after each step of both
/// collectives.

namespace lesson {

/// How many ranks are in the sum that rank r has of chunk c: counts[r][c].
using Counts = std::vector<std::vector<int>>;

/// @param states at the start, after 3 steps of the reduce-scatter, and 3 of the all-gather
inline Svg drawing(const std::vector<Counts>& states) {
  using namespace colour;
  constexpr int kCell = 38, kRow = 24, kBlock = 138, kTop = 82, kLeft = 62, kRight = 312,
                kLegend = 262;
  constexpr std::string_view kOld = "#eeeeee";
  Svg svg(480, kTop + 4 * kBlock - 20);
  svg.text(8, 20, "All-reduce on a ring of 4 ranks, step by step");
  svg.text(8, 48, "chunk");
  for (int c = 0; c < 4; ++c) {
    svg.text(kLeft + kCell * c + kCell / 2, 48, std::to_string(c), Svg::At::middle);
  }
  svg.box(kLegend, 52, 30, 18, gradients, "2"), svg.text(kLegend + 38, 66, "sum of 2 ranks");
  svg.box(kLegend, 78, 30, 18, gradients, "↓"), svg.text(kLegend + 38, 92, "from the rank above");
  svg.text(kLegend + 38, 108, "(rank 0: from rank 3)");
  svg.rect(kLegend, 116, 30, 18, reduce_scatter), svg.text(kLegend + 38, 130, "added");
  svg.rect(kLegend, 142, 30, 18, all_gather), svg.text(kLegend + 38, 156, "copied");
  svg.rect(kLegend, 168, 30, 18, kOld), svg.text(kLegend + 38, 182, "no longer used");

  std::vector<std::vector<bool>> old(4, std::vector<bool>(4));
  for (int step = 0; step <= 6; ++step) {
    const bool gathers = step > 3;
    const int left = gathers ? kRight : kLeft, top = kTop + kBlock * (gathers ? step - 3 : step);
    svg.text(left, top - 8,
             step == 0
                 ? "start: each rank's numbers"
                 : fmt::format("step {}: {}", step, gathers ? "all-gather" : "reduce-scatter"));
    const auto at = [&](int s, int rank, int c) { return states[s][rank % 4][c]; };
    const auto received = [&](int rank, int c) {
      return step > 0 && at(step, rank, c) != at(step - 1, rank, c);
    };
    for (int i = 0; i < 16; ++i) {
      const int rank = i / 4, c = i % 4;
      if (received(rank, c)) old[rank][c] = false;
      if (!gathers && received(rank + 1, c)) old[rank][c] = true;
    }
    for (int i = 0; i < 16; ++i) {
      const int rank = i / 4, c = i % 4, x = left + kCell * c, y = top + kRow * rank;
      if (c == 0) svg.text(left - 8, y + 16, fmt::format("rank {}", rank), Svg::At::end);
      if (received(rank, c)) {
        svg.rect(x, y, kCell, kRow, gathers ? all_gather : reduce_scatter);
      }
      const std::string number = (received(rank, c) ? "↓" : "") + std::to_string(at(step, rank, c));
      svg.box(x + 3, y + 3, kCell - 6, kRow - 6, old[rank][c] ? kOld : gradients,
              old[rank][c] ? "" : number);
    }
  }
  return svg;
}

}  // namespace lesson
