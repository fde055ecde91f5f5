#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"

namespace nanofsdp::nn {

/// @file
/// @brief Memory for activations: allocation moves a pointer, and everything is freed at once.
///
/// The first pass does not know how much it needs, so there each tensor has a buffer of its own,
/// which is freed once the pointer has moved back. reset() then makes one block of the most that
/// was ever held, and no later pass of that size allocates. Either way the arena takes as much as
/// it holds, and never more.

/// A stack of memory on the rank's device, which the ledger counts as activations. For one thread.
class Arena {
 public:
  explicit Arena(Context& context) : context_(context) {}  ///< the context outlives it

  /// Memory for a tensor, 64-byte aligned, contents unspecified.
  Tensor allocate(Shape shape, DType dtype);

  /// The bytes that are held. Giving an earlier position back frees what came after it.
  using Position = std::uint64_t;
  Position position() const { return top_; }  ///< to rewind to
  /// Frees everything that was allocated since `position` was taken.
  void rewind(Position position) { top_ = position; }

  /// The same, but keeps `tensor`, which moves to the position: it is copied there on the compute
  /// stream. Where that would free less than a 64th of its bytes, it stays where it is.
  /// @returns where `tensor` lies now; a tensor that is older, or is not the arena's, does not move
  Tensor keep(Position position, const Tensor& tensor);

  /// Frees everything; afterwards the arena is one block.
  void reset();
  /// Frees everything, gives all memory back, and forgets how much was held.
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
