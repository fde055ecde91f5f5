#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "support/ranks.h"
#include "support/tiny_training.h"

// set_requires_all_reduce: when the groups of a hybrid strategy add up their shards.

namespace nanofsdp::fsdp::across_groups_test {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

std::vector<float> of_shards(ShardedModel& sharded) {
  std::vector<float> all;
  for (const ShardedParameters* row : sharded.rows()) {
    const std::span<float> shard = row->gradient_shard().span<float>();
    all.insert(all.end(), shard.begin(), shard.end());
  }
  return all;
}

// Groups add up their shards in the second step only, and get the sum of both steps.
void expect_across_if_required(const TinyOptions& options) {
  testing::run_ranks(Backend::local, 4,
                     [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                       TinyTraining training(context, std::move(world), options);
                       ShardedModel& sharded = training.sharded;
                       const auto across = [&] {
                         const comm::Traffic traffic = training.mesh.traffic_across();
                         return traffic.all_reduces + traffic.reduce_scatters;
                       };
                       sharded.zero_grad();
                       sharded.set_requires_all_reduce(false);
                       training.micro_step(0, 0);
                       EXPECT_EQ(across(), 0);
                       for (const ShardedParameters* row : sharded.rows())
                         EXPECT_FALSE(row->is_reduced());
                       sharded.set_requires_all_reduce(true);
                       training.micro_step(0, 0);
                       EXPECT_EQ(across(), 4);
                       const std::vector<float> twice = of_shards(sharded);
                       sharded.zero_grad();
                       training.micro_step(0, 0);
                       std::vector<float> once = of_shards(sharded);
                       for (float& x : once) x *= 2;  // exact
                       EXPECT_EQ(twice, once);
                     });
}
TEST(AllReduce, WaitsUntilItIsRequired) {
  expect_across_if_required({.strategy = ShardingStrategy::hybrid_shard, .shard_size = 2});
}
// Here a reduce-scatter takes the place of the all-reduce.
TEST(AllReduce, WaitsUntilItIsRequiredIfReplicasSplitTheUpdate) {
  expect_across_if_required(
      {.strategy = ShardingStrategy::hybrid_shard_optimizer, .shard_size = 2});
}

}  // namespace
}  // namespace nanofsdp::fsdp::across_groups_test
