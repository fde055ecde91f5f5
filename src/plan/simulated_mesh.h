#pragma once

#include <cstdint>
#include <functional>

#include "base/context.h"
#include "comm/mesh.h"

namespace nanofsdp::plan {

/// @file
/// @brief One rank of a run that has no others: its collectives are counted, cost what they would,
/// and move nothing.
///
/// For Contexts on a simulated device. Nothing here grows with the number of ranks.

/// A run of which this is one rank; its number and theirs are the Context's.
struct SimulatedRun {
  int shard_size = 0;         ///< as of comm::Mesh
  int post_forward_size = 0;  ///< as of comm::Mesh
  /// What a backend keeps for sums: bytes, for so many ranks and a chunk of so many bytes. Empty:
  /// nothing.
  std::function<std::int64_t(int ranks, std::int64_t chunk_bytes)> scratch{};
};

/// This rank's place in the grid.
/// @param context outlives the mesh
/// @throws UsageError as comm::Mesh
comm::Mesh make_simulated_mesh(Context& context, const SimulatedRun& run = {});

}  // namespace nanofsdp::plan
