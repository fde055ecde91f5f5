#pragma once

#include <cstdint>
#include <deque>

#include "base/buffer.h"
#include "base/context.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief A few slots that the units take in turn for their unsharded parameters or gradients.
///
/// The slots are allocated once, so no step allocates and the peak is known beforehand: as many
/// slots as units are unsharded at a time, each as large as the largest of them. A slot that is
/// given back may still be read by work in flight, so it carries the event after which it is free,
/// and the next unit orders its first write to the slot after that. This also limits how far
/// communication runs ahead of computation (FSDP's rate limiter, paper section 3.4).
///
/// A model that uses its units in some other way than nested and in turn, one of them twice for
/// instance, may need more slots than that. The pool adds them, and frees them when the pass ends.

/// Slots of one size. For the main thread.
class BufferPool {
 public:
  /// Memory for one unit at a time.
  struct Slot {
    Buffer owner;   ///< of the memory
    Tensor memory;  ///< [numel]
    Event free{};   ///< after this event no work uses what the slot held before
  };

  /// Allocates the slots.
  /// @param numel elements of each slot
  BufferPool(Context& context, MemoryClass memory_class, int slots, std::int64_t numel,
             DType dtype = DType::float32);

  /// A slot that is free, or one more. Order the first write after `slot.free`.
  Slot& acquire();

  /// Whether acquire() would not have to make one.
  bool has_free_slot() const { return !free_.empty(); }

  /// Gives a slot back; `free` passes after its last use.
  void release(Slot& slot, Event free);

  /// Frees the slots beyond those it was made for, except those in use.
  void shrink();

 private:
  void add_slot();

  Context& context_;
  MemoryClass class_;
  std::int64_t numel_;
  DType dtype_;
  std::deque<Slot> slots_;  // which stay where they are when one is added
  std::deque<Slot*> free_;  // not in use, the one given back longest ago first
  std::size_t planned_;
};

}  // namespace nanofsdp::fsdp
