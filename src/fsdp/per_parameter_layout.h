#pragma once

#include <vector>

#include "fsdp/layout.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief FSDP2's layout: each parameter is cut along its first dimension.
///
/// A parameter of d rows (its first dimension) is cut as torch.chunk does: c = ceil(d / W) rows for
/// each rank, until there are no more. The last rank that has some may have fewer, those behind it
/// have none. A scalar is one row. In the row that travels every rank has room for c of them:
///
///     shard r = [ p0[r * c0 .. (r + 1) * c0) | p1[r * c1 .. (r + 1) * c1) | ... | padding ]
///     s = sum over parameters of c * (elements of one of its rows), aligned
///
/// So a piece is a tensor of its own, [rows, ...], with a place in the whole tensor. That is paid
/// for with copies, between the row and the whole parameters, and with up to (W - 1) / W of a
/// parameter as padding, if it has one row. Taught in lesson 23.

/// The chunks of all parameters of one unit.
class PerParameterLayout final : public Layout {
 public:
  /// As FlatLayout's.
  PerParameterLayout(std::vector<ParameterSpec> parameters, int world_size,
                     std::int64_t alignment = 1);

  Piece piece(std::size_t i, int rank) const override;
  std::int64_t chunk(std::size_t i) const override { return chunks_[i].size(); }

 private:
  std::vector<Range> chunks_;  // of each parameter: where in the shard there is room for c rows
};

}  // namespace nanofsdp::fsdp
