#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "frame/separated.h"
#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 26.

namespace lesson {

/// The bytes that a rank sends in a step on one grid.
struct Sent {
  std::string grid;
  std::int64_t shards, tensor;
};

/// Two bars for each grid, over megabytes.
inline Svg drawing(const std::vector<Sent>& grids) {
  const int left = 70, pixel = 25'000;  // bytes
  const auto wide = [](std::int64_t bytes) { return static_cast<int>(bytes / pixel); };
  Svg svg(560, 270);
  svg.text(16, 20, "Bytes that each of 4 ranks sends in a step");
  svg.text(16, 40, "shards x tensor");
  for (int million = 0; million <= 10; million += 2) {
    const int x = left + wide(million * std::int64_t{1'000'000});
    svg.line(x, 50, x, 220, colour::grey);
    svg.text(x, 238, fmt::format("{}", million), Svg::At::middle);
  }
  svg.text(left + 200, 258, "million bytes", Svg::At::middle);
  int y = 56;
  for (const Sent& grid : grids) {
    svg.text(16, y + 26, grid.grid);
    const auto bar = [&](int at, std::int64_t bytes, std::string_view fill, const char* name) {
      svg.rect(left, at, wide(bytes), 18, fill);
      if (bytes > 0) svg.text(left + wide(bytes) + 6, at + 13, name + (" " + separated(bytes)));
    };
    bar(y, grid.shards, colour::all_gather, "shards");
    bar(y + 22, grid.tensor, colour::activations, "tensor");
    y += 56;
  }
  return svg;
}

}  // namespace lesson
