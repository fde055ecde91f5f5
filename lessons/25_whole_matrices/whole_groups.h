#pragma once

#include <span>

#include "base/check.h"
#include "fsdp/unit.h"

/// @file
/// @brief What a sharded Muon cannot do: a strategy whose groups do not own whole matrices.

namespace lesson {

/// Returns the same units, if the ranks of a group together own all shards of them.
/// @throws Error under hybrid_shard_optimizer. There a shard belongs to one replica alone, so the
///   ranks of one group own only a part of each matrix
inline std::span<nanofsdp::fsdp::Unit> of_whole_groups(std::span<nanofsdp::fsdp::Unit> units) {
  for (const nanofsdp::fsdp::Unit& unit : units) {
    NANOFSDP_CHECK(unit.rows().front().stored_shards() == 1, .what = "Muon",
                   .expected = "shards that belong to a group", .got = "one for each replica",
                   .hint = "use hybrid_shard, not hybrid_shard_optimizer");
  }
  return units;
}

}  // namespace lesson
