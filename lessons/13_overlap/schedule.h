#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "base/tracer.h"

namespace lesson {

/// The milliseconds that the four units of lesson 13 need: forward and backward of a unit, and a
/// collective on the link.
inline constexpr int kUnits = 4, kForward = 8, kBackward = 16, kLink = 5;

/// One thing that the main thread of a rank does.
struct Action {
  enum Kind { issue, compute, wait } kind;
  int lane = 0;  ///< for an issue: 0 is the lane of all-gathers, 1 the lane of reduce-scatters
  int milliseconds = 0;  ///< for an issue: the time of the collective; or the time of a computation
  int of = 0;            ///< for a wait: it waits for issue number `of` of the schedule, from 0
  int unit = 0;          ///< the unit, for pictures
};

/// Actions in the order in which the main thread does them.
using Schedule = std::vector<Action>;

/// The schedule as the library's tracer records it, on a rank that is never late.
inline std::deque<nanofsdp::Span> spans(const Schedule& schedule) {
  using nanofsdp::Lane;
  std::deque<nanofsdp::Span> all;
  std::vector<std::size_t> issues;
  double now = 0;
  for (const Action& action : schedule) {
    if (action.kind == Action::compute) now += action.milliseconds;
    if (action.kind == Action::wait) {
      const std::size_t of = issues[static_cast<std::size_t>(action.of)];
      all.push_back({Lane::wait, "", 0, now, now, now, of});
    }
    if (action.kind != Action::issue) continue;
    const Lane lane = action.lane == 0 ? Lane::all_gather : Lane::reduce;
    all.push_back({lane, "", 0, now, now, now + action.milliseconds});
    issues.push_back(all.size());
  }
  return all;
}

}  // namespace lesson
