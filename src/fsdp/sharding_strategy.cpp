#include "fsdp/sharding_strategy.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

struct Named {
  std::string_view name;
  ShardingStrategy strategy;
};

constexpr std::array<Named, 6> kStrategies = {{{"no_shard", kNoShard},
                                               {"shard_optimizer", kShardOptimizer},
                                               {"shard_gradients", kShardGradients},
                                               {"full_shard", kFullShard},
                                               {"shard_grad_op", kShardGradOp},
                                               {"hybrid_shard", kHybridShard}}};

}  // namespace

ShardingStrategy parse_strategy(std::string_view name) {
  const auto* found = std::ranges::find(kStrategies, name, &Named::name);
  if (found != kStrategies.end()) return found->strategy;
  throw UsageError({.what = "--strategy",
                    .expected = "no_shard, shard_optimizer, shard_gradients, shard_grad_op, "
                                "full_shard or hybrid_shard",
                    .got = "'" + std::string(name) + "'"});
}

ShardingStrategy zero_stage(std::string_view stage) {
  const std::size_t at = std::string_view("0123").find(stage);
  if (stage.size() == 1 && at < 4) return kStrategies[at].strategy;
  throw UsageError(
      {.what = "--zero", .expected = "0, 1, 2 or 3", .got = "'" + std::string(stage) + "'"});
}

std::string name_of(const ShardingStrategy& strategy) {
  return std::string(std::ranges::find(kStrategies, strategy, &Named::strategy)->name);
}

}  // namespace nanofsdp::fsdp
