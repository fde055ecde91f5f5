#include <map>

#include "zero_3_units_exercise.h"

std::string events_of(const std::vector<int>& calls, bool training) {
  std::string events = "U.root";
  std::map<int, int> calls_left;  // for each block, the calls whose backward has not returned
  const auto gather_and_discard = [&](int block) {
    const std::string name = "h." + std::to_string(block);
    events += " U." + name + " R." + name;
    return name;
  };
  for (const int block : calls) {
    gather_and_discard(block);
    ++calls_left[block];
  }
  if (!training) return events + " R.root";
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    const std::string name = gather_and_discard(*call);
    if (--calls_left[*call] == 0) events += " RS." + name;
  }
  return events + " R.root RS.root";
}
