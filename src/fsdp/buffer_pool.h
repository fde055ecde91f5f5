#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief A few slots that the units take in turn for their unsharded parameters or gradients.
///
/// The slots are allocated once, so no step allocates and the peak is known beforehand: as many
/// slots as units are unsharded at a time, each as large as the largest of them. A slot that is
/// given back may still be read by work in flight, so it carries the event after which it is free,
/// and whoever takes it next orders its first write after that. This also limits how far
/// communication runs ahead of computation (FSDP's rate limiter, paper section 3.4).
class BufferPool {
 public:
  struct Slot {
    Tensor memory;  ///< [numel]
    Event free;     ///< after this event nobody uses what the slot held before
    bool held = false;
  };

  BufferPool(Context& context, MemoryClass memory_class, int slots, std::int64_t numel,
             DType dtype = DType::float32);

  /// A slot that nobody holds. Order the first write after `slot.free`.
  /// @throws Error if all are held: the schedule unshards more units than the pool was made for
  Slot& acquire();

  bool has_free_slot() const;

  /// Gives a slot back; `free` passes after its last use.
  void release(Slot& slot, Event free);

 private:
  Context& context_;
  MemoryClass class_;
  Buffer memory_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
};

}  // namespace nanofsdp::fsdp
