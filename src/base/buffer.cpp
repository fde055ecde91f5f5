#include "base/buffer.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace nanofsdp {
Buffer::Buffer(Ledger& ledger, MemoryClass memory_class, std::uint64_t bytes, Device device,
               Use use, SharedMemory* shared)
    : ledger_(&ledger),
      class_(memory_class),
      device_(device),
      use_(use),
      shared_(is_read_by_peers(memory_class) ? shared : nullptr),
      bytes_(bytes) {
  first_ = is_simulated(device)
               ? ledger.addresses(bytes)
               : address_of(shared_ ? shared_->allocate(bytes) : allocate_memory(device, bytes));
  ledger.reserve(class_, static_cast<std::int64_t>(bytes));
  if (use_ == Use::whole) ledger.use(class_, static_cast<std::int64_t>(bytes));
}

Buffer::~Buffer() { release(); }

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  *this = std::as_const(other);
  other.first_ = other.bytes_ = 0;
  return *this;
}

void Buffer::release() {
  if (first_ == 0) return;
  void* const memory = pointer_to(first_);
  shared_ ? shared_->release(memory) : release_memory(device_, memory);
  ledger_->reserve(class_, -static_cast<std::int64_t>(bytes_));
  if (use_ == Use::whole) ledger_->use(class_, -static_cast<std::int64_t>(bytes_));
  first_ = bytes_ = 0;
}

void Buffer::grow(std::uint64_t bytes) {
  if (bytes <= bytes_) return;
  release();
  *this = Buffer(*ledger_, class_, bytes, device_, use_, shared_);
}

Tensor Buffer::tensor(Shape shape, DType dtype, std::uint64_t offset) const {
  const std::uint64_t bytes = static_cast<std::uint64_t>(shape.numel()) * size_of(dtype);
  NANOFSDP_CHECK_SHAPE(offset <= bytes_ && bytes <= bytes_ - offset,
                       .what = "tensor " + shape.str() + " in a buffer",
                       .expected = fmt::format("at most {} bytes", bytes_),
                       .got = fmt::format("{} from byte {}", bytes, offset));
  return Tensor(first_ + offset, shape, dtype, device_);
}

}  // namespace nanofsdp
