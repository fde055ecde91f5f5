#include "two_slots_exercise.h"

#include <algorithm>

std::int64_t finish(const Schedule& schedule) {
  // TODO(lesson 14): roughly 5 lines, without a loop.
  return schedule.units * (schedule.gather + schedule.compute);
}
