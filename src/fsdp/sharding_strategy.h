#pragma once

#include <string>
#include <string_view>

namespace nanofsdp::fsdp {

/// @file
/// @brief What is sharded: three switches are the whole taxonomy (ZeRO, arXiv 1910.02054, figure
/// 1).

/// Each is kept whole on every rank, or sharded: one W-th of it on each.
struct ShardingStrategy {
  bool shard_parameters = true;
  bool shard_gradients = true;
  bool shard_optimizer = true;

  friend bool operator==(const ShardingStrategy&, const ShardingStrategy&) = default;
};

/// ZeRO-0, distributed data parallel: every rank keeps everything, gradients are all-reduced.
inline constexpr ShardingStrategy kNoShard{false, false, false};

/// ZeRO-3, fully sharded data parallel: whole parameters and gradients only while a unit computes.
inline constexpr ShardingStrategy kFullShard{true, true, true};

/// "full_shard" or "no_shard". @throws UsageError naming the choices
ShardingStrategy parse_strategy(std::string_view name);

std::string name_of(const ShardingStrategy& strategy);

}  // namespace nanofsdp::fsdp
