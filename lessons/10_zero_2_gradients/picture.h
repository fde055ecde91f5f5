#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/separated.h"
#include "frame/svg.h"

namespace lesson {

/// @file
/// @brief The memory of whole gradients, after each change of one backward.

/// A change, "+h.3" for borrowed or "-h.3" for reduced and freed, and the bytes after it.
struct Change {
  std::string event;
  std::int64_t bytes;
};

/// Two charts of the same scale, one below the other.
inline Svg picture_of_changes(const std::vector<Change>& early, const std::vector<Change>& late) {
  const int left = 40, bar = 44;
  Svg svg(490, 386);
  const auto chart = [&](int floor, std::string_view title, const std::vector<Change>& changes) {
    const auto most = std::ranges::max_element(changes, {}, &Change::bytes);
    int x = left, highest = 0;
    for (const Change& change : changes) {
      const int height = static_cast<int>(change.bytes / 25000);
      highest = std::max(highest, height);
      svg.rect(x, floor - height, bar - 2, height, colour::gradients);
      if (&change == &*most) {
        svg.text(x + bar / 2, floor - height - 5, separated(most->bytes), Svg::At::middle);
      }
      svg.text(x + bar / 2, floor + 16, change.event, Svg::At::middle);
      x += bar;
    }
    svg.line(left, floor, x, floor);
    svg.line(left, floor, left, floor - highest - 6);
    svg.text(left - 6, floor + 4, "0", Svg::At::end);
    svg.text(15, floor - highest - 28, title);
  };
  svg.text(15, 18, "Bytes of unsharded gradients on a rank, in one backward");
  chart(112, "each gradient reduced when its unit's backward returns:", early);
  chart(314, "all gradients reduced after backward:", late);
  svg.text(15, 356, "+h.3: backward of h.3 begins, its gradient is borrowed");
  svg.text(15, 374, "-h.3: the gradient of h.3 is reduced and freed");
  return svg;
}

}  // namespace lesson
