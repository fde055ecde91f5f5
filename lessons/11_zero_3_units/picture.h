#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frame/svg.h"

namespace lesson {

/// @file
/// @brief One step, event after event: which unit's parameters and gradient are unsharded.

/// Time goes down, a line for each event; each unit has a column.
/// @param events of one training step, "U.h.0"
/// @param forward how many of them belong to forward
inline Svg picture_of_step(const std::vector<std::string>& events, int forward) {
  const int top = 62, line = 17, first = 120, column = 72, n = static_cast<int>(events.size());
  const auto y = [&](int event) { return top + line * (event + (event < forward ? 1 : 2)); };
  const auto at = [&](const std::string& event, int from) {  // -1: none from there on
    const auto found = std::find(events.begin() + from, events.end(), event);
    return found == events.end() ? -1 : static_cast<int>(found - events.begin());
  };
  Svg svg(490, top + line * (n + 2) + 84);
  svg.text(15, 18, "One step, from top to bottom: which units are unsharded");
  svg.text(15, top + 13, "forward"), svg.text(15, y(forward) - 4, "backward");
  svg.line(15, y(forward) - line, 475, y(forward) - line);
  for (int event = 0; event < n; ++event) {
    const std::string& of = events[event];
    const std::string unit = of.substr(of.find('.') + 1);
    const bool gathers = of.starts_with("U."), reduces = of.starts_with("RS.");
    svg.text(15, y(event) + 13, (gathers ? "gather " : reduces ? "reduce " : "discard ") + unit);
  }
  int x = first;
  for (const std::string unit : {"root", "h.0", "h.1", "h.2", "h.3"}) {
    svg.text(x + 32, top - 4, unit, Svg::At::middle);
    for (int begin = 0; (begin = at("U." + unit, begin)) >= 0; ++begin) {
      svg.rect(x, y(begin), 34, y(at("R." + unit, begin)) + line - y(begin), colour::parameters);
      svg.rect(x, y(begin), 34, line, colour::all_gather);
    }
    const int end = at("RS." + unit, 0);
    const int borrowed = std::max(at("U." + unit, forward), forward);
    svg.rect(x + 35, y(borrowed), 29, y(end) - y(borrowed), colour::gradients);
    svg.rect(x + 35, y(end), 29, line, colour::reduce_scatter);
    x += column;
  }
  int below = top + line * (n + 2) + 14;
  for (const auto& [fill, words] : {std::pair{colour::all_gather, "all-gather"},
                                    std::pair{colour::parameters, "parameters unsharded"},
                                    std::pair{colour::gradients, "gradient unsharded"},
                                    std::pair{colour::reduce_scatter, "reduce-scatter"}}) {
    svg.rect(first, below, 34, 13, fill), svg.text(first + 42, below + 11, words);
    below += line;
  }
  return svg;
}

}  // namespace lesson
