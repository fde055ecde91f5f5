#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "frame/svg.h"
#include "frame/train.h"

/// @file
/// @brief The picture of lesson 05: losses and gradient norms of three runs.

namespace lesson {

/// @param runs averaged, summed, only rank 0
inline Svg drawing(const std::vector<Curve>& runs) {
  using namespace colour;
  constexpr int kLeft = 46, kStep = 10;
  Svg svg(480, 640);
  svg.text(8, 20, "Two ranks: the loss hides what the gradient norm shows");
  // A point of a run: a line for the first, hollow squares for the second, full ones for the third.
  const auto mark = [&](std::size_t run, int x, int y) {
    if (run == 0) return;
    svg.rect(x - 4, y - 4, 8, 8, ink);
    if (run == 1) svg.rect(x - 2, y - 2, 4, 4, "#ffffff");
  };
  constexpr std::string_view kNames[] = {"averaged: right", "summed: wrong", "only rank 0: wrong"};
  for (std::size_t run = 0; run < 3; ++run) {
    const int x = std::array{8, 160, 305}[run];
    if (run == 0) svg.line(x, 40, x + 16, 40);
    mark(run, x + 8, 40);
    svg.text(x + 22, 45, kNames[run]);
  }
  const auto panel = [&](int top, double from, double to, double tick, const char* name,
                         std::vector<double> Curve::*values) {
    const double scale = 220 / (to - from);
    const auto y = [&](double value) { return top + static_cast<int>((to - value) * scale); };
    svg.text(8, top - 16, name);
    for (double value = from; value < to + tick / 2; value += tick) {
      svg.line(kLeft, y(value), kLeft + 40 * kStep, y(value), grey);
      svg.text(kLeft - 8, y(value) + 4, fmt::format("{:.1f}", value), Svg::At::end);
    }
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const std::vector<double>& all = runs[run].*values;
      for (int step = 1; step <= 40; ++step) {
        const int x = kLeft + kStep * step;
        if (run == 0 && step > 1) svg.line(x - kStep, y(all[step - 2]), x, y(all[step - 1]));
        if (step % 3 == 1) mark(run, x, y(all[step - 1]));
      }
    }
    for (const int step : {1, 10, 20, 30, 40}) {
      svg.text(kLeft + kStep * step, top + 240, std::to_string(step), Svg::At::middle);
    }
  };
  panel(92, 2.5, 4.0, 0.5, "loss", &Curve::losses);
  panel(374, 0.5, 3.5, 0.5, "gradient norm before clipping", &Curve::norms);
  svg.text(kLeft + 20 * kStep, 634, "step", Svg::At::middle);
  return svg;
}

}  // namespace lesson
