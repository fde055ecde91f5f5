#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "07_flat_parameter/toy.h"
#include "frame/svg.h"

namespace lesson {

/// @file
/// @brief The toy's row, cut into the shards of two ranks.

/// Parameter and element of each place in the row: 18 is {2, 7}, the element 7 of C. Padding is no
/// parameter's: {3, 0}.
inline std::pair<std::size_t, std::int64_t> toy_element(std::int64_t place) {
  std::size_t i = 0;
  for (; i < kToy.size() && place >= kToy[i].numel(); ++i) place -= kToy[i].numel();
  return {i, i < kToy.size() ? place : 0};
}

/// @param s elements of a shard
inline Svg picture_of_cut(int s) {
  Svg svg(480, 300);
  const int left = 15;
  const auto element = [&](int place, int x, int y, int width, bool number) {
    const auto [i, e] = toy_element(place);
    if (i == kToy.size()) {  // padding: a frame of ink
      svg.rect(x, y, width, 24, colour::ink);
      svg.box(x + 2, y + 2, width - 4, 20, "#ffffff", number ? "pad" : "");
    } else {
      svg.box(x, y, width, 24, kShades[i], kToy[i].name + (number ? std::to_string(e) : ""));
    }
  };
  const auto tick = [&](int x, int y, int value) {
    svg.text(x, y, std::to_string(value), value == 0 ? Svg::At::start : Svg::At::middle);
  };
  svg.text(left, 18, fmt::format("The row of {} elements, cut into two shards", 2 * s));
  for (int e = 0; e < 2 * s; ++e) element(e, left + 17 * e, 34, 17, false);
  svg.line(left + 17 * s, 28, left + 17 * s, 66);
  for (const int e : {0, 6, 11, s, 2 * s}) tick(left + 17 * e, 80, e);
  svg.text(left, 98, "element of the row");
  for (const int rank : {0, 1}) {
    const int y = 146 + 80 * rank;
    svg.text(left, y - 8,
             fmt::format("rank {} owns [{}, {}) of the row", rank, rank * s, (rank + 1) * s));
    for (int e = 0; e < s; ++e) element(rank * s + e, left + 30 * e, y, 30, true);
    for (int e = 0; e <= s; ++e) {
      const bool begins = e == 0 || e == s || toy_element(rank * s + e).second == 0;
      if (begins) tick(left + 30 * e, y + 40, e);
    }
  }
  svg.text(left, 284, "element of the shard");
  return svg;
}

}  // namespace lesson
