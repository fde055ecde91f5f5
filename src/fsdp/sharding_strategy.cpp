#include "fsdp/sharding_strategy.h"

#include "base/check.h"

namespace nanofsdp::fsdp {

ShardingStrategy parse_strategy(std::string_view name) {
  if (name == "full_shard") return kFullShard;
  if (name == "no_shard") return kNoShard;
  throw UsageError({.what = "--strategy",
                    .expected = "full_shard or no_shard",
                    .got = "'" + std::string(name) + "'"});
}

std::string name_of(const ShardingStrategy& strategy) {
  return strategy == kNoShard ? "no_shard" : "full_shard";
}

}  // namespace nanofsdp::fsdp
