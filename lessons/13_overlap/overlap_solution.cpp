#include <algorithm>

#include "overlap_exercise.h"

int exposed(const lesson::Schedule& schedule) {
  int now = 0, sum = 0, free[2] = {};  // when each lane has finished what was issued before
  std::vector<int> done;               // when each collective is finished
  for (const lesson::Action& action : schedule) {
    if (action.kind == lesson::Action::compute) now += action.milliseconds;
    if (action.kind == lesson::Action::issue) {
      free[action.lane] = std::max(now, free[action.lane]) + action.milliseconds;
      done.push_back(free[action.lane]);
    }
    if (action.kind == lesson::Action::wait) {
      const int until = std::max(now, done[static_cast<std::size_t>(action.of)]);
      sum += until - now;
      now = until;
    }
  }
  return sum;
}

// The library's schedule. It is not the best one: the last unit of forward is the first of
// backward, and need not be discarded in between.
std::vector<Line> step(int units, int slots) {
  std::vector<Line> program;
  const bool prefetch = slots > 1;
  for (int u = 0; u < units; ++u) {
    if (u == 0 || !prefetch) program.push_back({Line::gather, u});
    if (prefetch && u + 1 < units) program.push_back({Line::gather, u + 1});
    program.push_back({Line::forward, u});
    program.push_back({Line::discard, u});
  }
  for (int u = units - 1; u >= 0; --u) {
    if (u == units - 1 || !prefetch) program.push_back({Line::gather, u});
    if (prefetch && u > 0) program.push_back({Line::gather, u - 1});
    program.push_back({Line::backward, u});
    program.push_back({Line::discard, u});
    program.push_back({Line::reduce, u});
  }
  return program;
}
