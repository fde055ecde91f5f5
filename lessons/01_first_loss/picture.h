#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 01: the losses of each step, ours and PyTorch's.

namespace lesson {

/// @param uniform the loss of equal logits
inline Svg drawing(std::span<const double> ours, std::span<const double> theirs, double uniform) {
  using namespace colour;
  const int steps = static_cast<int>(ours.size());
  const auto y = [](double loss) { return static_cast<int>(55 + (4.1 - loss) * 300); };
  Svg svg(480, 400);
  svg.text(8, 20, "Loss of each training step: ours equals PyTorch's");
  svg.text(8, 44, "loss");
  for (const double tick : {4.0, 3.8, 3.6, 3.4, 3.2}) {
    svg.line(50, y(tick), 475, y(tick), grey);
    svg.text(42, y(tick) + 4, fmt::format("{:.1f}", tick), Svg::At::end);
  }
  svg.line(50, y(uniform), 475, y(uniform));
  svg.text(475, y(uniform) + 18, fmt::format("equal logits: ln 52 = {:.4f}", uniform),
           Svg::At::end);
  for (int step = 0; step < steps; ++step) {
    const int x = 65 + 21 * step;
    svg.rect(x - 7, y(theirs[step]) - 7, 14, 14, ink);  // a frame around our mark
    svg.rect(x - 5, y(theirs[step]) - 5, 10, 10, "#ffffff");
    svg.rect(x - 3, y(ours[step]) - 3, 6, 6, ink);
    if (step % 5 == 0 || step + 1 == steps) {
      svg.text(x, 362, std::to_string(step), Svg::At::middle);
    }
  }
  svg.text(265, 385, "step", Svg::At::middle);
  svg.rect(60, 271, 14, 14, ink), svg.rect(62, 273, 10, 10, "#ffffff");
  svg.text(82, 283, "PyTorch");
  svg.rect(64, 297, 6, 6, ink);
  svg.text(82, 305, "nanofsdp, inside it");
  return svg;
}

}  // namespace lesson
