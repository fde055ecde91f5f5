#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nanofsdp {

/// @file
/// @brief What a rank did, in the order in which its main thread issued it.

/// Records events when switched on. Their names are short verbs with the unit they concern:
///
///     U.h0  all-gather issued        u.h0  unshard that found it issued already
///     R.h0  resharded, memory freed  r.h0  reshard that keeps the parameters
///     F.h0  forward of the module    RS.h0 reduce-scatter issued     AR.h0 all-reduce issued
///
/// Main thread of one rank only.
class Tracer {
 public:
  void start() { on_ = true; }
  void issue(std::string event) {
    if (on_) order_.push_back(std::move(event));
  }

  /// The events since the last call, oldest first.
  std::vector<std::string> take_order() { return std::exchange(order_, {}); }

 private:
  bool on_ = false;
  std::vector<std::string> order_;
};

}  // namespace nanofsdp
