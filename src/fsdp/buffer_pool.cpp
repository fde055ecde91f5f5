#include "fsdp/buffer_pool.h"

#include <algorithm>
#include <utility>

namespace nanofsdp::fsdp {

BufferPool::BufferPool(Context& context, MemoryClass memory_class, int slots, std::int64_t numel,
                       DType dtype)
    : context_(context),
      class_(memory_class),
      numel_(numel),
      dtype_(dtype),
      planned_(static_cast<std::size_t>(slots)) {
  while (slots_.size() < planned_) add_slot();
}

void BufferPool::add_slot() {
  Buffer owner = context_.buffer(class_, numel_, dtype_, Buffer::Use::by_owner);
  const Tensor memory = owner.tensor({numel_}, dtype_);
  slots_.push_back({.owner = std::move(owner), .memory = memory});
}

bool BufferPool::has_free_slot() const {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return !slot.held; });
}

BufferPool::Slot& BufferPool::acquire() {
  if (!has_free_slot()) add_slot();
  //! [in_turn]
  // In turn: the slot given back longest ago is the likeliest to be free without a wait.
  while (slots_[next_].held) next_ = (next_ + 1) % slots_.size();
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  //! [in_turn]
  slot.held = true;
  context_.ledger.use(class_, static_cast<std::int64_t>(slot.memory.bytes()));
  return slot;
}

void BufferPool::release(Slot& slot, Event free) {
  slot.held = false;
  slot.free = std::move(free);
  context_.ledger.use(class_, -static_cast<std::int64_t>(slot.memory.bytes()));
}

void BufferPool::shrink() {
  for (; slots_.size() > planned_ && !slots_.back().held; slots_.pop_back()) {
    slots_.back().free.synchronize();
  }
  if (next_ >= slots_.size()) next_ = 0;
}

}  // namespace nanofsdp::fsdp
