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
      memory_(allocate(slots)),
      planned_(static_cast<std::size_t>(slots)) {
  const Tensor all = memory_.tensor({slots * numel}, dtype);
  for (int i = 0; i < slots; ++i)
    slots_.push_back({.memory = all.slice(i * numel, numel), .free = {}});
}

Buffer BufferPool::allocate(std::int64_t slots) const {
  return Buffer(context_.ledger, class_, static_cast<std::size_t>(slots * numel_) * size_of(dtype_),
                context_.device, Buffer::Use::by_owner);
}

bool BufferPool::has_free_slot() const {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return !slot.held; });
}

BufferPool::Slot& BufferPool::lend_one_more() {
  more_memory_.push_back(allocate(1));
  slots_.push_back({.memory = more_memory_.back().tensor({numel_}, dtype_), .free = {}});
  return slots_.back();
}

BufferPool::Slot& BufferPool::acquire() {
  Slot* slot = nullptr;
  if (has_free_slot()) {
    //! [in_turn]
    // In turn: the slot given back longest ago is the likeliest to be free without a wait.
    while (slots_[next_].held) next_ = (next_ + 1) % slots_.size();
    slot = &slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    //! [in_turn]
  } else {
    slot = &lend_one_more();
  }
  slot->held = true;
  context_.ledger.use(class_, static_cast<std::int64_t>(slot->memory.bytes()));
  return *slot;
}

void BufferPool::release(Slot& slot, Event free) {
  slot.held = false;
  slot.free = std::move(free);
  context_.ledger.use(class_, -static_cast<std::int64_t>(slot.memory.bytes()));
}

void BufferPool::shrink() {
  for (; slots_.size() > planned_ && !slots_.back().held;
       slots_.pop_back(), more_memory_.pop_back()) {
    slots_.back().free.synchronize();
  }
  if (next_ >= slots_.size()) next_ = 0;
}

}  // namespace nanofsdp::fsdp
