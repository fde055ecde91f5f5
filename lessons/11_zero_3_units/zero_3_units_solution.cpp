#include "zero_3_units_exercise.h"

void pre_forward(HookedUnit& unit) { unit.gather(); }

void post_forward(HookedUnit& unit) {
  const bool stays = unit.is_root() && unit.is_training();
  if (!stays) unit.discard();
  if (unit.is_training()) ++unit.calls;
}

void pre_backward(HookedUnit& unit) {
  if (!unit.is_root()) unit.gather();
  if (unit.has_gradient()) return;  // an earlier call of this backward has borrowed it
  unit.borrow();
  unit.zero();
}

void post_backward(HookedUnit& unit) {
  unit.discard();
  if (--unit.calls == 0) unit.reduce();
}
