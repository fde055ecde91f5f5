#include "zero_3_units_exercise.h"

// TODO(lesson 11): the four hooks, roughly 12 lines in all.

void pre_forward(HookedUnit& unit) { unit.gather(); }

void post_forward([[maybe_unused]] HookedUnit& unit) {}

void pre_backward([[maybe_unused]] HookedUnit& unit) {}

void post_backward([[maybe_unused]] HookedUnit& unit) {}
