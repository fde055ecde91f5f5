#pragma once

#include <functional>
#include <optional>

#include "two_slots_exercise.h"

/// @file
/// @brief A clock for the second exercise of lesson 14: a backward whose units share their slots.

namespace lesson {

using Rule = std::function<bool(const Moment&)>;

/// A backward of some units, and how long each unit's work takes.
struct Backward {
  int units = 6, gather = 1, compute = 1, reduce = 1;
};

/// Lets time pass tick by tick.
/// @param slots shared by parameters and gradients; 4: two for each of them, and no rule is needed
/// @return when the last reduction ends; nothing if the rule leaves all streams without work
inline std::optional<int> backward_ends(const Backward& pass, int slots, const Rule& rule) {
  struct Lane {
    int ends = -1, done = 0;  // -1: nothing runs
    void start(int now, int time) { ends = now + time; }
    bool finishes(int now) { return ends == now && (ends = -1, ++done, true); }
  };
  const bool shared = slots < 4;
  Lane gather, compute, reduce;
  int parameters = 0, gradients = 0;  // slots that they hold
  bool has_gradient = false;
  const auto free_for = [&](int mine) {
    return shared ? slots - parameters - gradients : 2 - mine;
  };
  for (int now = 0;; ++now) {
    gather.finishes(now);
    if (compute.finishes(now)) --parameters, has_gradient = false;
    if (reduce.finishes(now)) --gradients;
    if (reduce.done == pass.units) return now;
    const int free = free_for(parameters);
    const bool more = gather.ends < 0 && gather.done < pass.units && free > 0;
    if (more && (!shared || rule({free, has_gradient}))) {
      gather.start(now, pass.gather), ++parameters;
    }
    const bool waits = compute.ends < 0 && compute.done < gather.done;
    if (waits && !has_gradient && free_for(gradients) > 0) has_gradient = true, ++gradients;
    if (waits && has_gradient) compute.start(now, pass.compute);
    if (reduce.ends < 0 && reduce.done < compute.done) reduce.start(now, pass.reduce);
    if (gather.ends < 0 && compute.ends < 0 && reduce.ends < 0) return std::nullopt;
  }
}

/// The earliest end that any rule reaches with three slots.
inline int earliest_end(const Backward& pass) {
  int earliest = 0;
  for (unsigned rule = 0; rule < 64; ++rule) {  // one bit for each moment that the rule can see
    const auto end = backward_ends(pass, 3, [&](const Moment& now) {
      return (rule >> (2 * now.free_slots - 2 + now.has_gradient) & 1) == 1;
    });
    if (end && (earliest == 0 || *end < earliest)) earliest = *end;
  }
  return earliest;
}

}  // namespace lesson
