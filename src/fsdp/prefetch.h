#pragma once

#include <string_view>
#include <vector>

#include "fsdp/unit.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Which unit backward needs next: the one that forward used before.

/// When backward asks for the next unit's parameters.
enum class BackwardPrefetch {
  none,  ///< when the unit's own turn comes
  pre    ///< when the unit before it in backward starts, so that the gather hides behind it
};

/// "none" or "pre". @throws UsageError naming the choices
BackwardPrefetch parse_backward_prefetch(std::string_view name);

/// The order in which forward used the units, recorded anew in each forward pass.
class ForwardOrder {
 public:
  void clear() { units_.clear(); }
  void record(Unit& unit) { units_.push_back(&unit); }

  /// The unit that forward used just before `unit`, which backward uses just after it. The root
  /// comes first in forward; backward starts with it, so what follows it is the last unit. Null
  /// after the first block.
  Unit* next_in_backward(const Unit& unit) const;

 private:
  std::vector<Unit*> units_;  // the root first
};

}  // namespace nanofsdp::fsdp
