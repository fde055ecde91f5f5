#include <algorithm>

#include "two_slots_exercise.h"

std::int64_t finish(const Schedule& s) {
  if (s.units == 0) return 0;
  if (s.slots == 1) return s.units * (s.gather + s.compute);  // nothing overlaps
  // The longer of the two runs without a pause, from the first unit to the last. Before it or after
  // it the shorter one runs once, alone. A second slot is enough for this: the unit that was in a
  // slot has computed before the longer one needs the slot again.
  return s.units * std::max(s.gather, s.compute) + std::min(s.gather, s.compute);
}

// Without its gradient's slot the current unit cannot compute. So the last slot is left for that.
bool gather_now(const Moment& now) { return now.free_slots > (now.has_gradient ? 0 : 1); }
