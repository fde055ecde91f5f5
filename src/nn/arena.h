#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"

namespace nanofsdp::nn {

/// @file
/// @brief Memory for activations: allocation moves a pointer, and everything is freed at once.
///
/// The first step does not know how much it needs, so the arena grows by blocks; reset() then makes
/// one block of the most that was ever held, and no later step of that size allocates.

/// A stack of memory on the rank's device, which the ledger counts as activations. For one thread.
class Arena {
 public:
  explicit Arena(Context& context) : context_(context) {}  ///< the context outlives it

  /// Memory for a tensor, 64-byte aligned, contents unspecified.
  Tensor allocate(Shape shape, DType dtype);

  /// How far the pointer has moved. Giving an earlier position back frees what came after it.
  struct Position {
    std::size_t block = 0;     ///< which block
    std::uint64_t offset = 0;  ///< bytes into it
    std::uint64_t held = 0;    ///< bytes allocated before it
  };
  Position position() const { return top_; }  ///< to rewind to
  /// Frees everything that was allocated since `position` was taken.
  void rewind(Position position) { top_ = position; }

  /// Frees everything; afterwards the arena is one block.
  void reset();

 private:
  Context& context_;
  std::vector<Buffer> blocks_;
  Position top_;
  std::uint64_t most_ = 0;
};

}  // namespace nanofsdp::nn
