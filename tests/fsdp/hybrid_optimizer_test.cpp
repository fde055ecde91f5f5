#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/layouts.h"
#include "support/ranks.h"
#include "support/reference.h"
#include "support/tiny_training.h"

// hybrid_shard_optimizer: the replicas of a shard split its update.

namespace nanofsdp::fsdp::hybrid_optimizer_test {
namespace {

using testing::Backend;
using testing::Reference;
using testing::TinyOptions;
using testing::train;

std::string words(const TinyOptions& o) {
  return fmt::format("groups of {}, {}{} micro-steps, prefetch {} and {}{}", o.shard_size,
                     o.layout == LayoutKind::flat ? "" : "another layout, ", o.micro_steps,
                     o.forward_prefetch, static_cast<int>(o.prefetch),
                     o.recompute ? ", recompute" : "");
}

// Replicas that split the update sum in the same order, for groups of 1 to 4 ranks and 1 to 4
// replicas. Only the norm is added up by other shards. So without clipping all bits are those of
// hybrid_shard. (With an odd number of replicas, its shards have another padding.)
TEST(HybridShardOptimizer, GivesTheBitsOfSumsByGroup) {
  for (const Backend backend : testing::backends()) {
    for (const auto& [size, replicas] : {std::pair(2, 2), {4, 1}, {1, 4}, {2, 3}, {3, 2}}) {
      if (backend != Backend::local && size * replicas > 4) continue;  // processes start slowly
      for (const LayoutKind layout : testing::kLayouts) {
        for (const std::int64_t micro_steps : {1, 3}) {
          const int world = size * replicas;
          TinyOptions o{.strategy = ShardingStrategy::hybrid_shard_optimizer,
                        .layout = layout,
                        .forward_prefetch = 1,
                        .micro_steps = micro_steps,
                        .shard_size = size};
          const auto expected = Reference(world, o).run();
          EXPECT_EQ(train(backend, world, o), expected) << words(o);
          if (backend != Backend::local) continue;  // the others compute the same sums
          o.clip = 0;
          auto split = train(backend, world, o);
          o.strategy = ShardingStrategy::hybrid_shard;
          auto whole = train(backend, world, o);
          for (std::size_t rank = 0; rank < split.size(); ++rank) {
            for (std::size_t step = 0; step < testing::kTinySteps; ++step) {
              EXPECT_NEAR(split[rank][2 * step + 1] / whole[rank][2 * step + 1], 1, 1e-6);
              split[rank][2 * step + 1] = whole[rank][2 * step + 1];  // the norm
            }
          }
          EXPECT_EQ(split, whole) << words(o);
        }
      }
    }
  }
}

// No schedule changes a bit, in any dtype.
TEST(HybridShardOptimizer, GivesTheSameBitsWhateverTheSchedule) {
  for (const auto& [param, reduce] :
       {std::pair(DType::float32, DType::float32), std::pair(DType::bfloat16, DType::bfloat16),
        std::pair(DType::float8_e4m3, DType::float32)}) {
    TinyOptions first{.strategy = ShardingStrategy::hybrid_shard_optimizer,
                      .micro_steps = 2,
                      .precision = {param, reduce},
                      .shard_size = 2};
    const auto expected = Reference(4, first).run();
    for (const BackwardPrefetch prefetch :
         {BackwardPrefetch::none, BackwardPrefetch::pre, BackwardPrefetch::post}) {
      for (const int forward_prefetch : {0, 2}) {
        for (const bool recompute : {false, true}) {
          TinyOptions o = first;
          o.prefetch = prefetch, o.forward_prefetch = forward_prefetch;
          o.recompute = recompute, o.pool = !recompute;
          EXPECT_EQ(train(Backend::local, 4, o), expected) << words(o);
        }
      }
    }
  }
}

// In groups of one, each rank has a place for all rows of all shards. With its padding this is more
// than the elements of a unit, so sums that were sent as bfloat16 need a larger slot.
TEST(HybridShardOptimizer, HasRoomForSumsThatAreLongerThanTheUnit) {
  const TinyOptions o{.strategy = ShardingStrategy::hybrid_shard_optimizer,
                      .layout = LayoutKind::per_parameter,
                      .precision = {DType::bfloat16, DType::bfloat16},
                      .shard_size = 1};
  EXPECT_EQ(train(Backend::local, 3, o), Reference(3, o).run());
}

}  // namespace
}  // namespace nanofsdp::fsdp::hybrid_optimizer_test
