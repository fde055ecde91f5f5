#include "nn/arena.h"

#include <algorithm>

#include "base/platform.h"

namespace nanofsdp::nn {
namespace {

constexpr std::uint64_t kBlockBytes = 1 << 20;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Tensor Arena::allocate(Shape shape, DType dtype) {
  const std::uint64_t bytes = aligned(static_cast<std::uint64_t>(shape.numel()) * size_of(dtype));
  while (top_.block < blocks_.size() && top_.offset + bytes > blocks_[top_.block].bytes()) {
    top_ = {top_.block + 1, 0, top_.held};
  }
  if (top_.block == blocks_.size()) {
    blocks_.emplace_back(context_.ledger, MemoryClass::activations, std::max(bytes, kBlockBytes),
                         context_.device);
  }
  context_.compute->allocated(bytes);
  const Tensor tensor = blocks_[top_.block].tensor(shape, dtype, top_.offset);
  top_.offset += bytes;
  top_.held += bytes;
  most_ = std::max(most_, top_.held);
  return tensor;
}

void Arena::reset() {
  top_ = {};
  if (blocks_.size() == 1 && blocks_[0].bytes() == most_) return;
  context_.compute->synchronize();  // until nobody reads what goes
  // First, so that old and new never count together, here or in the system's eyes. The system looks
  // through the whole heap for what is free: for one block that takes longer than it is worth.
  const bool many = blocks_.size() > 1;
  blocks_.clear();
  if (many) give_back_freed_memory();
  blocks_.emplace_back(context_.ledger, MemoryClass::activations, most_, context_.device);
}

}  // namespace nanofsdp::nn
