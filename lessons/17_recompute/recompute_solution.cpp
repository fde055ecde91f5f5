#include "recompute_exercise.h"

Action on(Hook hook, State& state) {
  const bool of_forward = hook == Hook::pre_forward || hook == Hook::post_forward;
  if (of_forward && state == State::pre_backward) return Action::nothing;  // a recompute
  if (hook == Hook::post_forward || hook == Hook::post_backward) {
    state = State::idle;
    return Action::discard;
  }
  state = of_forward ? State::forward : State::pre_backward;
  return Action::gather;
}
