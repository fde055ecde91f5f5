#pragma once

#include <cstdint>
#include <numeric>

#include "comm/communicator.h"
#include "fsdp/layout.h"
#include "fsdp/mixed_precision.h"
#include "fsdp/strategy.h"
#include "fsdp/wrap.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief How a model is sharded.

/// When backward asks for the next unit's parameters.
enum class BackwardPrefetch {
  none,  ///< when the unit's own turn comes
  pre,   ///< when the unit before it in backward starts, so that the gather hides behind it
  post   ///< when the unit before it has been resharded: less memory, little to hide behind
};

/// What fully_shard() can be told, by name: `{.strategy = ..., .no_sync = true}`.
struct Options {
  ShardingStrategy strategy = ShardingStrategy::full_shard;  ///< what is sharded (strategy.h)
  LayoutKind layout = LayoutKind::flat;                      ///< of shards (layout.h)
  MixedPrecision precision{};  ///< dtypes of computation and communication
  int forward_prefetch = 1;    ///< gathers issued ahead of the unit that computes
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;  ///< when the next gather is issued
  bool no_sync = false;  ///< accumulate whole gradients over micro-steps, and reduce once a step
  comm::ReduceOp reduction = comm::ReduceOp::average;  ///< of gradients over ranks
  std::int64_t alignment = 4;  ///< of parameters in a row, in elements: 16 bytes
  bool poison = false;         ///< NaN into discarded parameters
  bool pool = true;            ///< false: every unit has slots of its own
  /// Rank 0's values count for all ranks, which may have shapes alone. Collective.
  bool sync_module_states = false;
  WrapPolicy wrap_policy{};  ///< which modules become units

  /// Of parameters in a layout: shards are all-reduced across groups in equal chunks, too.
  std::int64_t alignment_on(int replicas) const {
    return std::lcm(alignment, static_cast<std::int64_t>(replicas));
  }

  const Sharding& sharding() const { return sharding_of(strategy); }  ///< its row

  /// Whether parameters and gradients are copied to and from the buffer of a collective.
  bool copies() const { return layout == LayoutKind::per_parameter && sharding().optimizer; }

  /// Whether units borrow memory for whole parameters: they are not stored whole, or not in the
  /// dtype in which they are sent and computed with.
  /// @param stored, computed the dtypes in which they are stored and computed with
  bool borrows_parameters(DType stored, DType computed) const {
    return sharding().parameters || copies() || stored != precision.param_dtype ||
           stored != computed;
  }

  /// Whether whole gradients add up over micro-steps, and are reduced once a step.
  bool accumulates() const { return no_sync || !sharding().gradients; }

  /// What a rank keeps a shard of. A unit that computes with a copy need not keep whole parameters:
  /// a shard is enough.
  /// @param stored, computed the dtypes of its parameters
  Sharding kept(DType stored, DType computed) const {
    Sharding kept = sharding();
    if (borrows_parameters(stored, computed)) kept.parameters = kept.optimizer;
    if (copies()) kept.gradients = true;
    return kept;
  }
};

}  // namespace nanofsdp::fsdp
