#include "zero_3_units_exercise.h"

std::string events_of([[maybe_unused]] const std::vector<int>& calls,
                      [[maybe_unused]] bool training) {
  // TODO(lesson 11): roughly 14 lines.
  return "U.root";
}
