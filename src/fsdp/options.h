#pragma once

#include <cstdint>
#include <numeric>

#include "comm/communicator.h"
#include "fsdp/layout.h"
#include "fsdp/strategy.h"
#include "fsdp/wrap.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The options of sharding.

/// When backward gathers the parameters of a unit. With `none` it does when the unit needs them.
/// With `pre` it does when the unit before it begins to compute; the gather is hidden behind that.
/// With `post` it does when the unit before it has been resharded; this takes less memory, but
/// hides little.
enum class BackwardPrefetch { none, pre, post };

/// The options of fully_shard(), given by name: `{.strategy = ..., .no_sync = true}`.
struct Options {
  ShardingStrategy strategy = ShardingStrategy::full_shard;  ///< the named strategy (strategy.h)
  LayoutKind layout = LayoutKind::flat;                      ///< layout of shards (layout.h)
  MixedPrecision precision{};  ///< dtypes of computation and communication
  int forward_prefetch = 1;    ///< gathers issued ahead of the unit that computes
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;  ///< when the next gather is issued
  bool no_sync = false;  ///< accumulate whole gradients over micro-steps, and reduce once a step
  comm::ReduceOp reduction = comm::ReduceOp::average;  ///< how gradients of ranks are combined
  /// Alignment of parameters in a row, in elements: 4 of float32 are 16 bytes. In bfloat16 a GPU
  /// multiplies faster with 8.
  std::int64_t alignment = 4;
  bool poison = false;  ///< fill the memory of discarded parameters with NaN
  bool pool = true;     ///< if false, every unit has a slot of its own
  /// Send rank 0's values to all ranks, whose parameters may have no values. In the tensor group of
  /// rank 0, each rank sends its own parts to the ranks that have the same parts. Collective.
  bool sync_module_states = false;
  WrapPolicy wrap_policy{};  ///< decides which modules become units

  /// The alignment for a layout. Replicas reduce a shard in equal chunks, so their number divides
  /// it.
  std::int64_t alignment_on(int replicas) const {
    return alignment / std::gcd(alignment, replicas) * replicas;
  }

  /// The strategy's row of the table.
  const Sharding& sharding() const { return sharding_of(strategy); }

  /// Whether parameters and gradients are copied to and from the buffer of a collective.
  bool copies() const { return layout == LayoutKind::per_parameter && sharding().optimizer; }

  /// Whether units borrow memory for whole parameters. They do if whole parameters are not stored,
  /// or not in the dtype in which they are sent and computed with.
  /// @param stored, computed the dtypes in which they are stored and computed with
  bool borrows_parameters(DType stored, DType computed) const {
    const bool rounded = stored == DType::float32 && precision.param_dtype != stored;
    return sharding().parameters || copies() || rounded || stored != computed;
  }

  /// Whether whole gradients add up over micro-steps, and are reduced once a step.
  bool accumulates() const { return no_sync || !sharding().gradients; }

  /// The kinds of memory that a rank keeps only a shard of. If a unit computes with a copy, the
  /// rank need not keep whole parameters.
  /// @param dtype the dtype of its parameters
  Sharding at_rest(DType dtype, Device device) const {
    Sharding row = sharding();
    if (borrows_parameters(dtype, compute_dtype(precision, device))) row.parameters = row.optimizer;
    if (copies()) row.gradients = true;
    return row;
  }
};

}  // namespace nanofsdp::fsdp
