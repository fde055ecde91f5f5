#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace nanofsdp::fsdp {

/// @file
/// @brief The sharding strategies: the stages of ZeRO (arXiv 1910.02054, figure 1) and FSDP's
/// strategies (arXiv 2304.11277, sections 3.2 and 3.3), each with a row in one table.

/// The strategy decides which memory is sharded, and how long a unit is whole.
enum class ShardingStrategy {
  no_shard,         ///< ZeRO-0, distributed data parallel: gradients are all-reduced
  shard_optimizer,  ///< ZeRO-1: each rank updates its shard of the parameters, then all gather
  shard_gradients,  ///< ZeRO-2: of the gradients too, a rank keeps what its optimizer needs
  full_shard,       ///< ZeRO-3, fully sharded data parallel: a unit is whole while it computes
  shard_grad_op,    ///< full_shard, but unsharded from a unit's forward to its backward
  hybrid_shard,     ///< full_shard inside each group of ranks, gradients all-reduced across groups
  hybrid_shard_optimizer  ///< hybrid_shard, but the optimizer's state is sharded over all ranks
};

/// One strategy. Memory that is not sharded is kept whole on every rank.
struct Sharding {
  /// The strategy of this row of the table.
  ShardingStrategy strategy = ShardingStrategy::no_shard;
  std::string_view name;    ///< "full_shard"
  bool parameters = false;  ///< sharded while they are not in use
  bool gradients = false;   ///< sharded after their reduction
  bool optimizer = false;   ///< its state is sharded
  /// If false, a unit stays unsharded from forward to backward.
  bool reshards_after_forward = false;
  bool replicates = false;  ///< across groups of ranks: the mesh says how large a group is
  /// The replicas of a shard share the work of its optimizer: each of them updates a part of it.
  bool splits_update = false;
};

/// In the order of the enumeration, which begins with the stages of ZeRO: row 2 is ZeRO-2.
inline constexpr std::array<Sharding, 7> kShardings = {{
    {ShardingStrategy::no_shard, "no_shard", false, false, false, false, false},
    {ShardingStrategy::shard_optimizer, "shard_optimizer", false, false, true, false, false},
    {ShardingStrategy::shard_gradients, "shard_gradients", false, true, true, false, false},
    {ShardingStrategy::full_shard, "full_shard", true, true, true, true, false},
    {ShardingStrategy::shard_grad_op, "shard_grad_op", true, true, true, false, false},
    {ShardingStrategy::hybrid_shard, "hybrid_shard", true, true, true, true, true},
    {ShardingStrategy::hybrid_shard_optimizer, "hybrid_shard_optimizer", true, true, true, true,
     true, true},
}};

/// The strategy's row of the table.
constexpr const Sharding& sharding_of(ShardingStrategy strategy) {
  return kShardings[static_cast<std::size_t>(strategy)];
}

/// The strategy's name, as options and messages have it.
inline std::string name_of(ShardingStrategy strategy) {
  return std::string(sharding_of(strategy).name);
}

}  // namespace nanofsdp::fsdp
