#pragma once

#include <cstdint>
#include <vector>

#include "base/context.h"

namespace nanofsdp::nn {

/// @file
/// @brief Memory for activations: allocation moves a pointer, and everything is freed at once.
///
/// The first pass does not know how much memory it needs. So each of its tensors has a buffer of
/// its own, which is freed when the pointer has moved back. Then reset() makes one block as large
/// as the most that was held, and later passes of that size allocate nothing. In both cases the
/// arena takes no more memory than it holds.

/// Bytes from the beginning of the buffer to a tensor that lies in it. For a tensor that lies
/// elsewhere, the result is at least the buffer's size.
inline std::uint64_t offset_in(const Buffer& buffer, const Tensor& tensor) {
  return tensor.address() - buffer.tensor({0}).address();
}

/// A stack of memory on the rank's device. The ledger counts it as activations. For one thread.
class Arena {
 public:
  explicit Arena(Context& context) : context_(context) {}  ///< the context must outlive it

  /// Memory for a tensor. It is aligned to 64 bytes, and its contents are unspecified.
  Tensor allocate(Shape shape, DType dtype);

  /// Whether the tensor lies in the block.
  bool holds(const Tensor& tensor) const { return offset_in(block_, tensor) < block_.bytes(); }

  /// A height of the stack, in bytes.
  using Position = std::uint64_t;
  Position position() const { return top_; }  ///< the height now, for rewind()
  /// Frees everything that was allocated since `position` was taken.
  void rewind(Position position) { top_ = position; }

  /// The same, but keeps `tensor`: the compute stream copies it to `position`. If that would free
  /// less than a 64th of its bytes, it stays where it is.
  /// @returns the tensor where it lies now. If it is older than `position`, or not of this arena,
  ///        it does not move
  Tensor keep(Position position, const Tensor& tensor);

  /// Frees all tensors. Then the arena is one block.
  void reset();
  /// Frees all tensors and all memory, and forgets how much was held.
  void clear();

 private:
  void free_rest();

  struct Piece {
    Position begin;  // bytes held before it
    Buffer memory;
  };

  Context& context_;
  Buffer block_;             // holds what fits
  std::vector<Piece> more_;  // each holds one tensor that did not fit
  Position top_ = 0, most_ = 0;
};

}  // namespace nanofsdp::nn
