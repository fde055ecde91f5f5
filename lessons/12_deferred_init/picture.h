#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "12_deferred_init/scene.h"
#include "frame/separated.h"
#include "frame/svg.h"

namespace lesson {

/// @file
/// @brief The root unit's random draws: in words, and as a picture.

/// One random draw of the root unit.
struct RootDraw {
  std::string name;        // name of the module
  std::int64_t begin = 0;  // its first number, counted from the start of the sequence
  std::int64_t numel = 0;
  bool stays = true;  // or a later draw overwrites it
};

inline std::vector<RootDraw> root_draws(const std::vector<Draw>& plan) {
  std::vector<RootDraw> found;
  std::int64_t begin = 0;
  for (auto draw = plan.begin(); draw != plan.end(); ++draw) {
    if (!draw->is_random()) continue;
    const bool stays = std::none_of(draw + 1, plan.end(), [&](const Draw& later) {
      return later.parameter == draw->parameter;
    });
    const std::string name = draw->owner.substr(draw->owner.rfind('.') + 1);
    if (draw->owner.starts_with("root")) found.push_back({name, begin, draw->numel(), stays});
    begin += draw->numel();
  }
  return found;
}

/// " lm_head 6656, wte 6656, wpe 8192"
inline std::string in_words(const std::vector<RootDraw>& draws) {
  std::string text;
  for (const RootDraw& draw : draws) {
    text += fmt::format("{} {} {}", text.empty() ? "" : ",", draw.name, draw.numel);
  }
  return text;
}

/// The root unit's modules as a tree, and the draws of both walks below it.
inline Svg picture_of_walks(const std::vector<RootDraw>& breadth,
                            const std::vector<RootDraw>& depth) {
  Svg svg(480, 420);
  svg.text(15, 18, "The root unit's modules, and two orders of drawing");
  const auto module = [&](int x, int y, int parent_x, std::string_view name, bool draws) {
    if (y > 34) svg.line(parent_x, y - 22, x, y);
    svg.box(x - 42, y, 84, 22, draws ? colour::parameters : "#eeeeee", name);
  };
  module(240, 34, 0, "GPT", false);
  module(180, 78, 240, "transformer", false), module(400, 78, 240, "lm_head", true);
  module(60, 122, 180, "wte", true), module(155, 122, 180, "wpe", true);
  module(250, 122, 180, "h.0 ... h.3", false), module(345, 122, 180, "ln_f", false);
  svg.text(15, 164, "blue: draws random numbers (ln_f starts as ones; h.0 ... h.3");
  svg.text(15, 181, "are units, and have drawn before)");

  const std::int64_t first = breadth.front().begin;
  const auto x = [&](std::int64_t number) { return 15 + static_cast<int>((number - first) / 48); };
  const auto walk = [&](int y, std::string_view title, const std::vector<RootDraw>& draws) {
    svg.text(15, y - 8, title);
    for (const RootDraw& draw : draws) {
      const int left = x(draw.begin), right = x(draw.begin + draw.numel);
      if (!draw.stays) svg.rect(left, y, right - left, 40, colour::ink);
      const int frame = draw.stays ? 0 : 2;
      svg.rect(left + frame, y + frame, right - left - 2 * frame, 40 - 2 * frame,
               draw.stays ? colour::parameters : "#ffffff");
      svg.text((left + right) / 2, y + 17, draw.name, Svg::At::middle);
      svg.text((left + right) / 2, y + 33, draw.stays ? "kept" : "overwritten", Svg::At::middle);
      svg.text(left, y + 56, separated(draw.begin));
    }
  };
  walk(222, "breadth-first (level by level):", breadth);
  walk(322, "depth-first (down each branch):", depth);
  svg.text(15, 400, "place in the sequence of random numbers");
  return svg;
}

}  // namespace lesson
