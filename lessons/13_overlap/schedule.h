#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "base/tracer.h"

namespace lesson {

/// One thing that the main thread of a rank does, in milliseconds.
struct Event {
  enum Kind { issue, compute, wait } kind;
  int lane = 0;  ///< of an issue: 0 all-gathers, 1 reductions. A lane does one after another
  int milliseconds = 0;  ///< of an issue or a computation. To issue takes no time
  int of = 0;            ///< of a wait: for the of-th issue of the schedule, from 0
};

using Schedule = std::vector<Event>;

/// The schedule as the library's tracer records it, of a rank that is never late.
inline std::deque<nanofsdp::Span> spans(const Schedule& schedule) {
  using nanofsdp::Lane;
  std::deque<nanofsdp::Span> all;
  std::vector<std::size_t> issues;
  double now = 0;
  for (const Event& e : schedule) {
    if (e.kind == Event::compute) now += e.milliseconds;
    if (e.kind == Event::wait) {
      const std::size_t of = issues[static_cast<std::size_t>(e.of)];
      all.push_back({Lane::wait, "", 0, now, now, now, of});
    }
    if (e.kind != Event::issue) continue;
    const Lane lane = e.lane == 0 ? Lane::all_gather : Lane::reduce;
    all.push_back({lane, "", 0, now, now, now + e.milliseconds});
    issues.push_back(all.size());
  }
  return all;
}

}  // namespace lesson
