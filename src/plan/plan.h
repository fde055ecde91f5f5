#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ledger.h"
#include "comm/counting.h"
#include "fsdp/flat_layout.h"
#include "fsdp/fully_shard.h"

namespace nanofsdp::plan {

/// @file
/// @brief The room `plan`: what a sharded run will hold and move, from its layouts alone, and how a
/// run is held against it.
///
/// Comes in: shapes (shapes.h), options, the grid of ranks; of a run its spans. Goes out: closed
/// formulas, to be compared with what the ledger and the counters measure; how much communication
/// was hidden (overlap.h); traces (trace_file.h); what a rank can compute at most (peak.h).
///
/// Everything but activations, which depend on the model's arithmetic and are known after the first
/// step. Padding counts. Taught in lessons 06, 09 to 11 and 18.

/// The ranks as a grid, and what one of them does in a step.
struct Workload {
  int shard_size = 1;            ///< F, ranks of a shard group
  int replicas = 1;              ///< R, groups
  std::int64_t micro_steps = 1;  ///< M, of one rank in an optimizer step
  Device device = Device::cpu;   ///< which says in what units compute
};

struct Plan {
  /// Bytes that a rank has reserved, by class, from the construction of model and optimizer on.
  std::array<std::int64_t, kMemoryClasses.size()> bytes{};
  /// Bytes of the largest parameter, in which initialisation draws and which it gives back.
  std::int64_t init_scratch = 0;
  /// What a rank does in one optimizer step.
  comm::Traffic step;
  std::int64_t bytes_across = 0;  ///< of them, sent to other shard groups

  std::int64_t& of(MemoryClass c) { return bytes[static_cast<std::size_t>(c)]; }
  std::int64_t of(MemoryClass c) const { return bytes[static_cast<std::size_t>(c)]; }

  /// Parameters, gradients and optimizer state: what is there between two steps.
  std::int64_t at_rest() const {
    return of(MemoryClass::parameter_shards) + of(MemoryClass::gradient_shards) +
           of(MemoryClass::optimizer);
  }
};

/// The layouts of a unit's rows.
struct UnitLayout {
  fsdp::FlatLayout trained;
  fsdp::FlatLayout frozen{{}, 1};  ///< empty if all parameters learn
  int depth = 1;                   ///< units around it; the root's is 0

  std::int64_t total_numel() const { return trained.total_numel() + frozen.total_numel(); }
  std::int64_t shard_numel() const { return trained.shard_numel() + frozen.shard_numel(); }
  std::int64_t padded_numel() const { return trained.padded_numel() + frozen.padded_numel(); }
  std::int64_t padding_numel() const { return padded_numel() - total_numel(); }
};

/// The layouts that a ShardedModel gives to its units, before there is one, if none are nested.
/// @param units the parameters of each, all of which learn, the root's last
std::vector<UnitLayout> lay_out(std::span<const std::vector<fsdp::ParameterSpec>> units,
                                const fsdp::Options& options, const Workload& workload);

/// The layouts of the model's units, the root's last.
std::vector<UnitLayout> layouts_of(std::span<const fsdp::Unit> units);

/// @param layouts of all units over `shard_size` ranks, the root's last; each unit is used once a
///        micro-step
/// @param options as given to ShardedModel
Plan plan(std::span<const UnitLayout> layouts, const fsdp::Options& options,
          const Workload& workload);

/// plan(), and what lies outside the sharded model: the sums of the norm, what Gloo receives in,
/// and whatever else the program keeps for communication.
/// @param others bytes of those (LossMeter::bytes())
Plan plan_training(std::span<const UnitLayout> layouts, const fsdp::Options& options,
                   const Workload& workload, bool over_gloo, std::int64_t others);

}  // namespace nanofsdp::plan
