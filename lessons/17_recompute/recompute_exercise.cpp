#include "recompute_exercise.h"

Action on(Hook hook, State& /*state*/) {
  // TODO(lesson 17): roughly 8 lines.
  return hook == Hook::pre_forward || hook == Hook::pre_backward ? Action::gather : Action::discard;
}
