#include "two_slots_exercise.h"

int finish(const Schedule& schedule) {
  // TODO(lesson 14): roughly 8 lines.
  return schedule.units * (schedule.gather + schedule.compute);
}
