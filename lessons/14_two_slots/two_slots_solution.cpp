#include <algorithm>
#include <cstddef>
#include <vector>

#include "two_slots_exercise.h"

int finish(const Schedule& schedule) {
  std::vector<int> free(static_cast<std::size_t>(schedule.slots));  // when each can be written
  int gathered = 0, computed = 0;  // when the last gather ended, and the last computation
  for (int u = 0; u < schedule.units; ++u) {
    int& slot = free[static_cast<std::size_t>(u % schedule.slots)];
    gathered = std::max(gathered, slot) + schedule.gather;
    computed = std::max(computed, gathered) + schedule.compute;
    slot = computed;
  }
  return computed;
}
