#pragma once

#include <string>

#include "fsdp/layout.h"
#include "fsdp/strategy.h"

namespace nanofsdp::testing {

/// @file
/// @brief The layouts of shards and the strategies, for tests that try all of them.

/// All layouts.
inline constexpr fsdp::LayoutKind kLayouts[] = {
    fsdp::LayoutKind::flat, fsdp::LayoutKind::per_parameter, fsdp::LayoutKind::row_aligned};

/// The name that the command line gives a layout.
inline std::string name_of(fsdp::LayoutKind kind) {
  constexpr const char* names[] = {"flat", "per_parameter", "row_aligned"};
  return names[static_cast<int>(kind)];
}

/// All strategies.
inline constexpr fsdp::ShardingStrategy kStrategies[] = {
    fsdp::ShardingStrategy::no_shard,
    fsdp::ShardingStrategy::shard_optimizer,
    fsdp::ShardingStrategy::shard_gradients,
    fsdp::ShardingStrategy::shard_grad_op,
    fsdp::ShardingStrategy::full_shard,
    fsdp::ShardingStrategy::hybrid_shard,
    fsdp::ShardingStrategy::hybrid_shard_optimizer};

/// Whether the strategy replicates parameters across groups of ranks.
constexpr bool is_hybrid(fsdp::ShardingStrategy strategy) {
  return fsdp::sharding_of(strategy).replicates;
}

}  // namespace nanofsdp::testing
