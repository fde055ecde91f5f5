#include "fsdp/buffer_pool.h"

#include <utility>

namespace nanofsdp::fsdp {

BufferPool::BufferPool(Context& context, MemoryClass memory_class, std::int64_t slots,
                       std::int64_t numel, DType dtype)
    : context_(context), class_(memory_class), numel_(numel), dtype_(dtype) {
  plan(slots);
}

void BufferPool::plan(std::int64_t slots) {
  for (planned_ = slots; std::ssize(slots_) < planned_;) add_slot();
}

void BufferPool::add_slot() {
  Buffer owner = context_.buffer(class_, numel_, dtype_, Buffer::Use::by_owner);
  const Tensor memory = owner.tensor({numel_}, dtype_);
  slots_.push_back({.owner = std::move(owner), .memory = memory});
  free_.push_back(&slots_.back());
}

BufferPool::Slot& BufferPool::acquire() {
  if (!has_free_slot()) add_slot();
  //! [in_turn]
  // The slot that was given back first is the likeliest one to be free without a wait.
  Slot& slot = *free_.front();
  free_.pop_front();
  //! [in_turn]
  context_.ledger.use(class_, static_cast<std::int64_t>(slot.memory.bytes()));
  return slot;
}

void BufferPool::release(Slot& slot, Event free) {
  slot.free = std::move(free);
  free_.push_back(&slot);
  context_.ledger.use(class_, -static_cast<std::int64_t>(slot.memory.bytes()));
}

void BufferPool::shrink() {
  while (std::ssize(slots_) > planned_ && std::erase(free_, &slots_.back()) > 0) {
    slots_.back().free.synchronize();
    slots_.pop_back();
  }
}

}  // namespace nanofsdp::fsdp
