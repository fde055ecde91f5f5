#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>

#include "frame/separated.h"
#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 02: dx of one row in three ways, and the bytes of two choices.

namespace lesson {

/// @param ways       dx of all rows: by hand, measured, and with mean and rstd as constants
/// @param kept, rows bytes: of mean and rstd, and of the normalised rows
inline Svg drawing(const std::array<std::span<const double>, 3>& ways, std::int64_t kept,
                   std::int64_t rows) {
  using namespace colour;
  Svg svg(480, 385);
  svg.text(8, 20, "Gradient dx of one row, computed three ways");
  const std::array names = {"by hand", "measured slope", "mean and rstd as constants: wrong"};
  const auto box = [&](int x, int y, int width, int height, int kind) {
    svg.rect(x, y, width, height, kind == 0 ? gradients : ink);
    if (kind == 2 && height > 4) svg.rect(x + 2, y + 2, width - 4, height - 4, "#ffffff");
  };
  for (int kind = 0; kind < 3; ++kind) {
    const int x = std::array{8, 90, 220}[kind];
    box(x, 32, 12, 12, kind), svg.text(x + 18, 43, names[kind]);
  }
  for (int i = 0; i < 24; ++i) {
    const double dx = ways[i % 3][i / 3];
    const int x = 52 + 53 * (i / 3) + 14 * (i % 3), height = static_cast<int>(std::abs(dx) * 45);
    box(x, dx > 0 ? 145 - height : 145, 14, height, i % 3);
    if (i % 3 == 1) svg.text(x + 7, 252, std::to_string(i / 3), Svg::At::middle);
  }
  svg.line(45, 145, 475, 145);
  for (const int tick : {-2, -1, 0, 1}) {
    svg.line(41, 145 - 45 * tick, 45, 145 - 45 * tick);
    svg.text(36, 149 - 45 * tick, std::to_string(tick), Svg::At::end);
  }
  svg.text(8, 70, "dx"), svg.text(260, 270, "element of the row", Svg::At::middle);
  svg.text(8, 310, "Memory kept for backward, 768 rows, to scale");
  svg.rect(8, 322, static_cast<int>(464 * kept / rows), 18, activations);
  svg.text(24, 336, fmt::format("mean and rstd: {} bytes", separated(kept)));
  svg.box(8, 350, 464, 22, activations, fmt::format("normalised rows: {} bytes", separated(rows)));
  return svg;
}

}  // namespace lesson
