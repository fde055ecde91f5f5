#include <array>
#include <string>
#include <vector>

#include "frame/exercise.h"
#include "recompute_exercise.h"

static std::string to_string(Action action) {
  return action == Action::nothing ? "nothing" : action == Action::gather ? "gather" : "discard";
}
static std::string to_string(State state) {
  return state == State::idle ? "idle" : state == State::forward ? "forward" : "pre_backward";
}

struct Call {
  Hook hook;
  Action action;  // the right action
  State after;
};

// Every sequence of six passes. A pass is a forward, as in an evaluation; or a backward that
// recomputes never, once or twice.
int main() {
  const std::vector<Call> forward = {{Hook::pre_forward, Action::gather, State::forward},
                                     {Hook::post_forward, Action::discard, State::idle}};
  std::array<std::vector<Call>, 4> passes = {forward};
  for (std::size_t again = 0; again < 3; ++again) {
    std::vector<Call>& backward = passes[1 + again];
    backward = {{Hook::pre_backward, Action::gather, State::pre_backward}};
    for (std::size_t i = 0; i < again; ++i) {
      for (const Call& call : forward) {
        backward.push_back({call.hook, Action::nothing, State::pre_backward});
      }
    }
    backward.push_back({Hook::post_backward, Action::discard, State::idle});
  }

  const char* const names[] = {"pre_forward", "post_forward", "pre_backward", "post_backward"};
  lesson::Exercise exercise("on");
  for (int sequence = 0; sequence < 4096; ++sequence) {
    State state = State::idle;
    std::string calls;
    for (int pass = 0, rest = sequence; pass < 6; ++pass, rest /= 4) {
      for (const Call& call : passes[static_cast<std::size_t>(rest % 4)]) {
        calls += std::string(calls.empty() ? "" : ", ") + names[static_cast<int>(call.hook)];
        const Action yours = on(call.hook, state);
        if (!exercise.expect(yours, call.action, "last of the calls {}: the action", calls) ||
            !exercise.expect(state, call.after, "last of the calls {}: the state", calls)) {
          return exercise.end();
        }
      }
    }
  }
  return exercise.end();
}
