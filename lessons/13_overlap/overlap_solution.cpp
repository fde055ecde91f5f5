#include <algorithm>

#include "overlap_exercise.h"

int exposed(const lesson::Schedule& schedule) {
  int now = 0, sum = 0, free[2] = {};  // when each lane has done what was issued before
  std::vector<int> done;               // when each issue is done
  for (const lesson::Event& event : schedule) {
    if (event.kind == lesson::Event::compute) now += event.milliseconds;
    if (event.kind == lesson::Event::issue) {
      free[event.lane] = std::max(now, free[event.lane]) + event.milliseconds;
      done.push_back(free[event.lane]);
    }
    if (event.kind == lesson::Event::wait) {
      const int until = std::max(now, done[static_cast<std::size_t>(event.of)]);
      sum += until - now;
      now = until;
    }
  }
  return sum;
}
