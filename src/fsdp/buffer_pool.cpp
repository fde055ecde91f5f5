#include "fsdp/buffer_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {

BufferPool::BufferPool(Context& context, MemoryClass memory_class, int slots, std::int64_t numel,
                       DType dtype)
    : context_(context),
      class_(memory_class),
      memory_(context.ledger, memory_class,
              static_cast<std::size_t>(slots * numel) * size_of(dtype), context.device,
              Buffer::Use::by_owner) {
  const Tensor all = memory_.tensor({slots * numel}, dtype);
  for (int i = 0; i < slots; ++i)
    slots_.push_back({.memory = all.slice(i * numel, numel), .free = {}});
}

bool BufferPool::has_free_slot() const {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return !slot.held; });
}

BufferPool::Slot& BufferPool::acquire() {
  NANOFSDP_CHECK(has_free_slot(), .what = fmt::format("pool of {}", name_of(class_)),
                 .expected = fmt::format("at most {} units at a time", slots_.size()),
                 .got = "one more");
  //! [in_turn]
  // In turn: the slot given back longest ago is the likeliest to be free without a wait.
  while (slots_[next_].held) next_ = (next_ + 1) % slots_.size();
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  slot.held = true;
  //! [in_turn]
  context_.ledger.use(class_, static_cast<std::int64_t>(slot.memory.bytes()));
  return slot;
}

void BufferPool::release(Slot& slot, Event free) {
  slot.held = false;
  slot.free = std::move(free);
  context_.ledger.use(class_, -static_cast<std::int64_t>(slot.memory.bytes()));
}

}  // namespace nanofsdp::fsdp
