#pragma once

#include <cstdint>
#include <deque>

#include "base/context.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief A few slots in which the units take turns to hold their whole parameters or gradients.
///
/// The slots are allocated once. So no step allocates, and the peak is known before the first step:
/// there are as many slots as units that are whole at the same time, and each slot is as large as
/// the largest unit. When a slot is given back, enqueued work may still read it. So the slot has an
/// event after which it is free, and the next unit writes only after that event. This also limits
/// how far communication runs ahead of computation (FSDP's rate limiter, paper section 3.4).
///
/// Some models need more slots, for example one that uses a unit twice. The pool adds these slots,
/// and frees them when the pass ends.

/// Slots of one size, for the main thread.
class BufferPool {
 public:
  /// Memory for one unit at a time.
  struct Slot {
    Buffer owner;   ///< owns the memory
    Tensor memory;  ///< [numel]
    Event free{};   ///< after this event no work uses what the slot held before
  };

  /// Allocates the slots.
  /// @param numel elements of each slot
  BufferPool(Context& context, MemoryClass memory_class, std::int64_t slots, std::int64_t numel,
             DType dtype = DType::float32);

  /// Returns a free slot. If there is none, it adds one. Write to it only after `slot.free`.
  Slot& acquire();

  /// Whether a slot is free.
  bool has_free_slot() const { return !free_.empty(); }

  /// Gives a slot back. @param free passes after its last use
  void release(Slot& slot, Event free);

  /// Allocates slots until there are this many. If there are more, shrink() frees the others.
  void plan(std::int64_t slots);

  /// Frees the slots that are more than planned, except those in use.
  void shrink();

 private:
  void add_slot();

  Context& context_;
  MemoryClass class_;
  std::int64_t numel_;
  DType dtype_;
  std::deque<Slot> slots_;  // a deque does not move its elements when one is added
  std::deque<Slot*> free_;  // free slots; the slot that was given back first comes first
  std::int64_t planned_ = 0;
};

}  // namespace nanofsdp::fsdp
