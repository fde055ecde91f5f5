#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "fsdp/unit.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Which unit comes next: the one that came next in the forward pass before, or, in
/// backward, the one that came before in this forward pass.

/// When backward asks for the next unit's parameters.
enum class BackwardPrefetch {
  none,  ///< when the unit's own turn comes
  pre,   ///< when the unit before it in backward starts, so that the gather hides behind it
  post   ///< when the unit before it has been resharded: less memory, little to hide behind
};

/// The order in which forward used the units, recorded anew in each forward pass.
class ForwardOrder {
 public:
  /// A forward pass begins.
  void begin() { before_ = std::exchange(units_, {}); }
  void record(Unit& unit) { units_.push_back(&unit); }

  /// The unit that the forward pass before used `distance` units after `unit`. Null if there is
  /// none.
  Unit* next_in_forward(const Unit& unit, std::size_t distance) const;

  /// The unit that forward used just before `unit`, which backward uses just after it. The root
  /// comes first in forward; backward starts with it, so what follows it is the last unit. Null
  /// after the first block.
  Unit* next_in_backward(const Unit& unit) const;

 private:
  std::vector<Unit*> units_;   // the root first
  std::vector<Unit*> before_;  // of the pass before
};

}  // namespace nanofsdp::fsdp
