#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "frame/separated.h"
#include "frame/svg.h"
#include "runs.h"

/// @file
/// @brief The picture of lesson 21.

namespace lesson {

/// The bytes of one of W ranks.
struct Bar {
  std::int64_t W;
  Rank rank;
};

/// PyTorch's losses as a line, and some of ours as squares.
inline void draw_losses(Svg& svg, std::span<const double> ours, std::span<const double> theirs) {
  constexpr int kLeft = 40, kBottom = 220, kLoss = 40;  // pixels of a loss of 1
  svg.text(20, 20, "Loss: PyTorch (line), nanofsdp on 2 ranks (squares)");
  for (int loss = 0; loss <= 4; ++loss) {
    svg.line(kLeft, kBottom - kLoss * loss, kLeft + 350, kBottom - kLoss * loss, colour::grey);
    svg.text(kLeft - 8, kBottom - kLoss * loss + 4, fmt::format("{}", loss), Svg::At::end);
  }
  std::vector<double> some;
  for (std::size_t step = 0; step < theirs.size(); step += 2) some.push_back(theirs[step]);
  svg.curve(kLeft, kBottom, 7, kLoss, some, colour::ink);
  for (std::size_t step = 0; step < ours.size(); step += 10) {
    const int x = kLeft + 7 * static_cast<int>(step) / 2;
    svg.rect(x - 4, static_cast<int>(kBottom - kLoss * ours[step]) - 4, 9, 9, colour::ink);
  }
  for (int step = 0; step <= 100; step += 20) {
    svg.text(kLeft + 7 * step / 2, kBottom + 18, fmt::format("{}", step), Svg::At::middle);
  }
  svg.text(kLeft + 175, kBottom + 36, "step", Svg::At::middle);
}

/// For each W two bars. The first line is at y.
inline void draw_bytes(Svg& svg, std::span<const Bar> bars, int y) {
  constexpr std::int64_t kBytes = 320'000'000;  // bytes of a pixel
  svg.text(20, y, "Bytes of one of W ranks of Llama 70B");
  int x = 20;
  for (const auto& [name, fill] : {std::pair{"parameters", colour::parameters},
                                   {"gradients", colour::gradients},
                                   {"moments", colour::optimizer}}) {
    svg.rect(x, y + 14, 14, 14, fill), svg.text(x + 20, y + 26, name);
    x += 120;
  }
  // Moments are half of what a rank keeps; they are never borrowed.
  const auto bar = [&](std::int64_t bytes, bool moments, const char* verb) {
    const int part = static_cast<int>(bytes / (moments ? 4 : 2) / kBytes);
    svg.rect(60, y, part, 16, colour::parameters);
    svg.rect(60 + part, y, part, 16, colour::gradients);
    if (moments) svg.rect(60 + 2 * part, y, 2 * part, 16, colour::optimizer);
    svg.text(66 + (moments ? 4 : 2) * part, y + 13,
             fmt::format("{} {:.1f} GB", verb, 1e-9 * static_cast<double>(bytes)));
    y += 18;
  };
  y += 42;
  for (const auto& [W, rank] : bars) {
    svg.text(54, y + 22, separated(W), Svg::At::end);
    if (W == bars.front().W) svg.text(8, y + 22, "W =");
    bar(rank.kept, true, "keeps"), bar(rank.borrowed, false, "borrows");
    y += 12;
  }
}

inline Svg drawing(std::span<const double> ours, std::span<const double> theirs,
                   std::span<const Bar> bars) {
  Svg svg(420, 590);
  draw_losses(svg, ours, theirs);
  draw_bytes(svg, bars, 300);
  return svg;
}

}  // namespace lesson
