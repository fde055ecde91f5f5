#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <vector>

#include "frame/svg.h"
#include "runs.h"

/// @file
/// @brief The picture of lesson 21.

namespace lesson {

/// What one of W ranks has of a model.
struct Bar {
  std::int64_t W;
  Rank rank;
};

/// PyTorch's losses as a line with some of ours on it; and bytes of a rank as bars.
inline Svg drawing(std::span<const double> ours, std::span<const double> theirs,
                   std::span<const Bar> bars) {
  Svg svg(690, 280);
  std::vector<double> some;
  for (std::size_t step = 0; step < theirs.size(); step += 5) some.push_back(theirs[step]);
  svg.curve(30, 250, 6, 55, some, colour::ink);
  for (std::size_t step = 0; step < ours.size(); step += 25) {
    const int x = 30 + 6 * static_cast<int>(step) / 5, y = static_cast<int>(250 - 55 * ours[step]);
    svg.rect(x - 3, y - 3, 7, 7, colour::blue);
  }
  svg.text(90, 30, "loss: PyTorch (line), ours (squares)");
  svg.text(44, 40, fmt::format("{:.2f}", theirs.front()));
  svg.text(324, 190, fmt::format("{:.2f}", theirs.back()), Svg::At::end);
  svg.text(324, 270, fmt::format("{} steps", theirs.size()), Svg::At::end);

  svg.text(370, 30, "a rank of llama-70b keeps, borrows (orange)");
  const auto pixels = [](std::int64_t bytes) { return static_cast<int>(bytes / 400'000'000); };
  int y = 50;
  for (const auto& [W, rank] : bars) {
    svg.text(430, y + 20, fmt::format("W = {}", W), Svg::At::end);
    svg.rect(440, y, pixels(rank.kept), 30, colour::green);
    svg.rect(440 + pixels(rank.kept), y, pixels(rank.borrowed), 30, colour::orange);
    y += 40;
  }
  svg.line(440, 255, 440 + pixels(16'000'000'000), 255);
  svg.text(490, 260, "16 GB");
  return svg;
}

}  // namespace lesson
