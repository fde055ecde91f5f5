#pragma once

#include "base/device.h"
#include "base/tensor.h"

namespace nanofsdp::fsdp {

class Unit;

/// @file
/// @brief What a unit tells of its way. Whoever traces, counts or checks units listens, and no unit
/// knows of it.

/// One step of a unit's way, when the main thread has come to it.
enum class Moment {
  found,           ///< unshard: a whole copy is there, or on its way
  gather_begins,   ///< the all-gather of the parameters is enqueued next, on `stream`
  gather_ends,     ///< it is enqueued; `event` passes when it is done
  waits,           ///< `stream` is to wait for `event`
  forward_begins,  ///< the module computes next, on `stream`
  forward_ends,
  backward_begins,
  backward_ends,
  kept,                   ///< reshard: the whole copy stays
  discarded,              ///< reshard: `memory`, empty if none was borrowed, is free after `stream`
  reduce_scatter_begins,  ///< a reduction of the gradients is enqueued next, on `stream`
  all_reduce_begins,
  reduction_ends  ///< it is enqueued; `event` passes when it is done
};

struct UnitEvent {
  Moment moment;
  Stream* stream = nullptr;
  Event* event = nullptr;
  Tensor memory{};
};

class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  virtual void on(const Unit& unit, const UnitEvent& event) = 0;
};

}  // namespace nanofsdp::fsdp
