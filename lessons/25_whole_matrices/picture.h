#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 25.

namespace lesson {

struct LossCurve {
  std::string name;
  std::vector<double> losses;  // of step 1, 2, ...
  std::string_view colour;
  bool dashed = false;
};

/// The losses of several runs over the steps, the run with the largest last loss first.
inline Svg drawing(const std::vector<LossCurve>& curves) {
  const int left = 50, bottom = 330, step = 8, top = 50;
  const double lowest = 2, scale = (bottom - top) / 2.5;  // losses from 2 to 4.5
  const int steps = static_cast<int>(curves.front().losses.size());
  Svg svg(left + steps * step + 110, 390);
  svg.text(16, 20, "The loss of a GPT of 804,096 parameters on the tales");
  for (int half = 4; half <= 9; ++half) {
    const int y = bottom - static_cast<int>(scale * (half / 2.0 - lowest));
    svg.line(left, y, left + steps * step, y, colour::grey);
    svg.text(left - 8, y + 4, fmt::format("{:.1f}", half / 2.0), Svg::At::end);
  }
  int below = 0;  // where the next name may begin
  for (const LossCurve& curve : curves) {
    std::vector<double> above;
    for (const double loss : curve.losses) above.push_back(loss - lowest);
    const std::size_t dash = curve.dashed ? 2 : above.size();  // its values
    for (std::size_t i = 0; i < above.size(); i += dash) {
      const int x = left + step * static_cast<int>(i + 1);
      svg.curve(x, bottom, step, scale, std::span(above).subspan(i, dash), curve.colour);
    }
    const int y = std::max(below, bottom - 5 - static_cast<int>(scale * above.back()));
    svg.text(left + steps * step + 6, y, curve.name);
    below = y + 16;
  }
  for (int at = 10; at <= steps; at += 10) {
    svg.text(left + at * step, bottom + 20, fmt::format("{}", at), Svg::At::middle);
  }
  svg.text(left + steps * step / 2, bottom + 44, "step", Svg::At::middle);
  svg.text(16, 40, "loss");
  return svg;
}

}  // namespace lesson
