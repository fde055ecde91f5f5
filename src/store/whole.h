#pragma once

#include <cstdint>
#include <vector>

#include "fsdp/layout.h"
#include "nn/parameter.h"

namespace nanofsdp::store {

/// @file
/// @brief The place of a rank's part of a parameter in the whole parameter. Files have whole
/// parameters, so that any mesh can read them.
///
/// In row-major order, a whole parameter consists of blocks, one of each rank in turn. A rank's
/// part is its blocks, one behind the other. A weight [4, 6] that 2 ranks have by columns:
///
///     whole     [ row 0: 0 0 0 1 1 1 | row 1: 0 0 0 1 1 1 | ... ]     blocks of 3 elements
///     part 1    [ row 0: 3 elements  | row 1: 3 elements  | ... ]

/// How a whole consists of blocks, and which of them a part has. By default there is one part.
struct Blocks {
  std::int64_t size = 1;  ///< elements of a block
  std::int64_t rank = 0;  ///< the part: it has the blocks rank, rank + ranks, ...
  std::int64_t ranks = 1;

  bool is_whole() const { return ranks == 1; }  ///< whether there is one part only

  /// The places of neighbouring elements of the part: ranges of the whole, from front to back.
  std::vector<fsdp::Range> in_whole(fsdp::Range of_part) const;
};

/// The blocks of the part that `parameter` is, if require_names() (weights.h) takes it.
Blocks blocks_of(const nn::Parameter& parameter);

/// The shape of the whole parameter.
Shape whole_shape(const nn::Parameter& parameter);

}  // namespace nanofsdp::store
