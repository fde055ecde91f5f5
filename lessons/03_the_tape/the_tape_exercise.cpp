#include "the_tape_exercise.h"

std::vector<int> completion_order(std::span<const int> uses) {
  // TODO(lesson 03): roughly 6 lines.
  return {uses.rbegin(), uses.rend()};
}
