#include "zero_3_units_exercise.h"

#include <string>

std::string events_of([[maybe_unused]] int blocks, [[maybe_unused]] bool training) {
  // TODO(lesson 11): roughly 10 lines.
  return "U.root";
}
