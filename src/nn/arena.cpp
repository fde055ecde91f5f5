#include "nn/arena.h"

#include <algorithm>
#include <utility>

#include "base/platform.h"
#include "ops/elementwise.h"

namespace nanofsdp::nn {
namespace {

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Tensor Arena::allocate(Shape shape, DType dtype) {
  const std::uint64_t bytes = aligned(static_cast<std::uint64_t>(shape.numel()) * size_of(dtype));
  free_rest();
  const bool fits = top_ + bytes <= block_.bytes();
  if (!fits) more_.push_back({top_, context_.buffer(MemoryClass::activations, bytes / 4)});
  const Buffer& memory = fits ? block_ : more_.back().memory;
  const Tensor tensor = memory.tensor(shape, dtype, fits ? top_ : 0);
  context_.compute->allocated(bytes);
  top_ += bytes;
  most_ = std::max(most_, top_);
  return tensor;
}

// Frees the pieces that begin at top_ or behind it.
void Arena::free_rest() {
  if (more_.empty() || more_.back().begin < top_) return;
  context_.compute->synchronize();  // work on the stream may still read them
  std::erase_if(more_, [this](const Piece& piece) { return piece.begin >= top_; });
}

Tensor Arena::keep(Position position, const Tensor& tensor) {
  const auto own = std::ranges::find_if(more_, [&](const Piece& piece) {
    return offset_in(piece.memory, tensor) < piece.memory.bytes();
  });
  const bool has_own = own != more_.end();
  const Position begin = has_own ? own->begin : offset_in(block_, tensor);
  if ((!has_own && !holds(tensor)) || begin < position) return rewind(position), tensor;
  const std::uint64_t bytes = has_own ? own->memory.bytes() : aligned(tensor.bytes());
  if (begin - position < bytes / 64) return rewind(aligned(begin + bytes)), tensor;
  rewind(position);
  if (has_own) {
    Piece kept{position, std::move(own->memory)};
    free_rest();
    more_.push_back(std::move(kept));
    top_ += bytes;
    return tensor;
  }
  const Tensor kept = allocate(tensor.shape(), tensor.dtype());
  const auto step = static_cast<std::int64_t>((begin - position) / size_of(tensor.dtype()));
  // Source and target of one step do not overlap.
  for (std::int64_t i = 0; i < tensor.numel(); i += step) {
    const std::int64_t n = std::min(step, tensor.numel() - i);
    ops::copy(*context_.compute, {.in = tensor.slice(i, n), .out = kept.slice(i, n)});
  }
  return kept;
}

void Arena::reset() {
  top_ = 0;
  if (more_.empty() && block_.bytes() == most_) return;
  // The old block is freed first, so that old and new never count together, neither in the ledger
  // nor in the system.
  const std::uint64_t most = most_;
  clear();
  give_back_freed_memory();
  block_ = context_.buffer(MemoryClass::activations, most / 4);
  most_ = most;
}

void Arena::clear() {
  context_.compute->synchronize();  // work on the stream may still read the memory
  more_.clear();
  block_ = Buffer();
  top_ = most_ = 0;
}

}  // namespace nanofsdp::nn
