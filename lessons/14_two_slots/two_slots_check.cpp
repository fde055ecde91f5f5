#include "frame/exercise.h"
#include "two_slots_exercise.h"

// The specification lets time pass, one tick after the other, and watches both lanes.
static int by_the_clock(const Schedule& s) {
  int gathered = 0, computed = 0;               // units that are done
  int gather_ends = -1, computation_ends = -1;  // of those under way; -1: none is
  for (int now = 0;; ++now) {
    if (gather_ends == now) ++gathered, gather_ends = -1;
    if (computation_ends == now) ++computed, computation_ends = -1;
    if (computed == s.units) return now;
    const bool has_slot = gathered - s.slots < computed;
    if (gather_ends < 0 && gathered < s.units && has_slot) gather_ends = now + s.gather;
    if (computation_ends < 0 && computed < gathered) computation_ends = now + s.compute;
  }
}

int main() {
  lesson::Exercise exercise("finish");
  for (int units = 0; units <= 7; ++units) {
    for (int slots = 1; slots <= 4; ++slots) {
      for (int gather = 1; gather <= 4; ++gather) {
        for (int compute = 1; compute <= 4; ++compute) {
          const Schedule schedule{units, slots, gather, compute};
          exercise.expect(finish(schedule), by_the_clock(schedule),
                          "{} units, {} slots, gather {}, compute {}", units, slots, gather,
                          compute);
        }
      }
    }
  }
  return exercise.end();
}
