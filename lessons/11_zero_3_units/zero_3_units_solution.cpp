#include <string>

#include "zero_3_units_exercise.h"

std::string events_of(int blocks, bool training) {
  std::string events = "U.root";
  for (int i = 0; i < blocks; ++i) {
    const std::string block = "h." + std::to_string(i);
    events += " U." + block + " R." + block;
  }
  if (!training) return events + " R.root";
  for (int i = blocks - 1; i >= 0; --i) {
    const std::string block = "h." + std::to_string(i);
    events += " U." + block + " R." + block + " RS." + block;
  }
  return events + " R.root RS.root";
}
