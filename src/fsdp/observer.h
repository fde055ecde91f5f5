#pragma once

#include <string_view>

#include "base/device.h"
#include "base/tensor.h"
#include "base/tracer.h"

namespace nanofsdp::fsdp {

class Unit;

/// @file
/// @brief What a unit tells of its way. Whoever traces, counts or checks units listens, and no unit
/// knows of it.

/// One step of a unit's way, when the main thread has come to it.
struct UnitEvent {
  /// What sort of step it is.
  enum class Kind {
    done,    ///< it takes no time
    begins,  ///< work of the unit is enqueued next, on `stream`
    ends,    ///< the work that began last is enqueued; `event` passes when it is done
    waits    ///< `stream` is to wait for `event`
  };
  Kind kind = Kind::done;     ///< says which fields count
  std::string_view verb{};    ///< "U." and the other short ones of base/tracer.h, where it has one
  std::string_view pass{};    ///< of computation that begins: "forward " or "backward "
  Lane lane = Lane::compute;  ///< of work that begins
  Stream* stream = nullptr;   ///< where work is enqueued, or what waits
  Event* event = nullptr;     ///< of work that ends, or that is waited for
  Tensor memory{};            ///< discarded: free after `stream`
};

/// To derive from. A Unit is given its observers when it is made.
class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  /// Called by the main thread at each step. It must not change the unit.
  virtual void on(const Unit& unit, const UnitEvent& event) = 0;
};

}  // namespace nanofsdp::fsdp
