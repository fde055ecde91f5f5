#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 06: the bytes that each of four ranks keeps for one parameter.

namespace lesson {

/// @param stages bytes at ZeRO-0 to ZeRO-3: of the parameter, its gradient, its moments
inline Svg drawing(const std::array<std::array<std::int64_t, 3>, 4>& stages) {
  constexpr int kByte = 23, kLeft = 66, kWidth = 480;
  constexpr std::string_view kFills[] = {colour::parameters, colour::gradients, colour::optimizer};
  Svg svg(kWidth, 310);
  svg.text(8, 20, "Bytes that each of 4 ranks keeps for one parameter");
  svg.text(kLeft + 8, 54, "parameter"), svg.text(kLeft + 4 * kByte + 8, 54, "gradient");
  svg.text(kLeft + 8 * kByte + 8, 54, "Adam's two moments");
  for (int stage = 0; stage < 4; ++stage) {
    const int y = 64 + 48 * stage;
    int x = kLeft;
    svg.text(8, y + 22, fmt::format("ZeRO-{}", stage));
    std::int64_t sum = 0;
    for (std::size_t part = 0; part < 3; ++part) {
      const std::int64_t bytes = stages[stage][part];
      const int width = static_cast<int>(kByte * bytes);
      svg.box(x, y, width, 36, kFills[part], fmt::format("{}", bytes));
      x += width, sum += bytes;
    }
    svg.text(x + 6, y + 22, fmt::format("= {}", sum));
  }
  for (int bytes = 0; bytes <= 16; bytes += 4) {
    svg.line(kLeft + kByte * bytes, 256, kLeft + kByte * bytes, 262);
    svg.text(kLeft + kByte * bytes, 278, fmt::format("{}", bytes), Svg::At::middle);
  }
  svg.line(kLeft, 256, kLeft + 16 * kByte, 256);
  svg.text(kLeft + 8 * kByte, 300, "bytes, float32 and AdamW", Svg::At::middle);
  return svg;
}

}  // namespace lesson
