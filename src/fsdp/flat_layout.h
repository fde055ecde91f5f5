#pragma once

#include "fsdp/layout.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief FSDP1's layout: a unit is one row of elements, which is cut into equal parts.
///
/// A unit's parameters are flattened, laid end to end and padded to a multiple of the world size W
/// ("FlatParameter", FSDP paper, arXiv 2304.11277, section 3.2.2). Rank r then owns one contiguous
/// piece of equal length, its shard:
///
///     flat    = [ p0 | p1 | ... | pk | padding ]        padded_numel = W * s
///     shard r = flat[r * s, (r + 1) * s)                s = ceil(n / W),  n = the end of pk
///
/// What travels is what computes: nothing is copied. Less than W elements are padding, if a = 1.
/// Taught in lessons 07 and 08.

/// The flat parameter of one unit.
class FlatLayout final : public Layout {
 public:
  /// @param parameters in the order in which the module tree names them; may be empty
  /// @param world_size W >= 1
  /// @param alignment in elements, a >= 1
  /// @throws Error if W < 1, a < 1, or a shape has a negative dimension
  FlatLayout(std::vector<ParameterSpec> parameters, int world_size, std::int64_t alignment = 1)
      : Layout(std::move(parameters), world_size, alignment) {}

  /// Elements of the flat parameter that `rank` owns, padding included.
  Range shard_of(int rank) const { return {rank * shard_numel(), (rank + 1) * shard_numel()}; }

  Piece piece(std::size_t i, int rank) const override;
};

}  // namespace nanofsdp::fsdp
