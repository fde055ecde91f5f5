#pragma once

#include <string>
#include <string_view>

namespace nanofsdp::fsdp {

/// @file
/// @brief What is sharded: three switches are the whole taxonomy of ZeRO (arXiv 1910.02054, figure
/// 1), a fourth and a fifth are FSDP's (arXiv 2304.11277, sections 3.2 and 3.3).

/// Parameters, gradients and optimizer state are each kept whole on every rank, or sharded: one
/// W-th of them on each.
struct ShardingStrategy {
  bool shard_parameters = true;
  bool shard_gradients = true;
  bool shard_optimizer = true;

  /// Where parameters are sharded: whether they are freed between forward and backward too.
  bool reshard_after_forward = true;

  /// Sharded inside groups of ranks, replicated across them: the mesh says how large a group is.
  bool replicate_across_groups = false;

  friend bool operator==(const ShardingStrategy&, const ShardingStrategy&) = default;
};

/// ZeRO-0, distributed data parallel: every rank keeps everything, gradients are all-reduced.
inline constexpr ShardingStrategy kNoShard{false, false, false};

/// ZeRO-1: each rank updates its shard of the parameters, and they are gathered after it.
inline constexpr ShardingStrategy kShardOptimizer{false, false, true};

/// ZeRO-2: of the gradients too, a rank keeps the shard that its optimizer needs.
inline constexpr ShardingStrategy kShardGradients{false, true, true};

/// ZeRO-3, fully sharded data parallel: whole parameters and gradients only while a unit computes.
inline constexpr ShardingStrategy kFullShard{true, true, true};

/// As full_shard, but a unit stays whole between its forward and its backward.
inline constexpr ShardingStrategy kShardGradOp{true, true, true, false};

/// full_shard inside each group, and an all-reduce of the gradient shards across the groups.
inline constexpr ShardingStrategy kHybridShard{true, true, true, true, true};

/// "no_shard", "shard_optimizer", "shard_gradients", "shard_grad_op", "full_shard" or
/// "hybrid_shard". @throws UsageError naming the choices
ShardingStrategy parse_strategy(std::string_view name);

/// The strategy of ZeRO's stage: "0" no_shard, "1" shard_optimizer, "2" shard_gradients, "3"
/// full_shard. @throws UsageError naming the choices
ShardingStrategy zero_stage(std::string_view stage);

/// The name that parse_strategy knows. @pre one of the six
std::string name_of(const ShardingStrategy& strategy);

}  // namespace nanofsdp::fsdp
