#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

void expect_bytes(const Context& context, MemoryClass memory_class, std::int64_t bytes) {
  EXPECT_EQ(context.ledger.count(memory_class).reserved, bytes) << name_of(memory_class);
  EXPECT_EQ(context.ledger.count(memory_class).reserved_peak, bytes) << name_of(memory_class);
}

// The closed formula: one W-th of the padded sizes of everything that is sharded, and the slots of
// two blocks and the root. The same after construction, and at the peak of training.
TEST(Memory, IsOneWthOfThePaddedSizesAndTheSlots) {
  for (const int world : {2, 3, 4}) {
    testing::run_ranks(
        Backend::local, world, [](Context& context, std::unique_ptr<comm::Communicator> group) {
          TinyTraining training(context, std::move(group), {});
          for (std::int64_t step = 0; step < 2; ++step) training.step(step);
          std::int64_t padded = 0, largest = 0;
          for (const Unit& unit : training.sharded.units()) {
            padded += unit.flat().layout().padded_numel();
            if (unit.name() != "root") {
              largest = std::max(largest, unit.flat().layout().padded_numel());
            }
          }
          const std::int64_t root = training.sharded.units().back().flat().layout().padded_numel();
          const std::int64_t shards = 4 * padded / context.world_size;
          expect_bytes(context, MemoryClass::parameter_shards, shards);
          expect_bytes(context, MemoryClass::gradient_shards, shards);
          expect_bytes(context, MemoryClass::optimizer, 2 * shards);
          expect_bytes(context, MemoryClass::unsharded_gradients, 4 * (2 * largest + root));
          // Initialisation draws into a scratch of one parameter, wte or c_fc.
          const MemoryCount unsharded = context.ledger.count(MemoryClass::unsharded_parameters);
          EXPECT_EQ(unsharded.reserved, 4 * (2 * largest + root));
          EXPECT_EQ(unsharded.reserved_peak, unsharded.reserved + 4 * 40 * 10);
          // Between steps nothing is unsharded; during one, two blocks and the root at most.
          EXPECT_EQ(unsharded.in_use, 0);
          EXPECT_EQ(context.ledger.count(MemoryClass::unsharded_gradients).in_use, 0);
        });
  }
}

TEST(Memory, OfNoShardIsWholeOnEveryRank) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), {.strategy = kNoShard});
                       training.step(0);
                       std::int64_t padded = 0;
                       for (const Unit& unit : training.sharded.units()) {
                         padded += unit.flat().layout().padded_numel();
                       }
                       expect_bytes(context, MemoryClass::parameter_shards, 4 * padded);
                       expect_bytes(context, MemoryClass::gradient_shards, 4 * padded);
                       expect_bytes(context, MemoryClass::optimizer, 8 * padded);
                       expect_bytes(context, MemoryClass::unsharded_gradients, 0);
                     });
}

TEST(Memory, IsNotAllocatedAfterTheFirstStep) {
  for (const Backend backend : testing::backends()) {
    for (const ShardingStrategy& strategy : {kFullShard, kNoShard}) {
      testing::run_ranks(backend, 2,
                         [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                           TinyTraining training(context, std::move(group),
                                                 {.strategy = strategy, .micro_steps = 2});
                           training.step(0);
                           const std::int64_t allocations = context.ledger.allocations();
                           const std::int64_t peak = context.ledger.total_peak();
                           for (std::int64_t step = 1; step < 5; ++step) training.step(step);
                           EXPECT_EQ(context.ledger.allocations(), allocations);
                           EXPECT_EQ(context.ledger.total_peak(), peak);
                         });
    }
  }
}

TEST(Memory, IsAllGivenBackAtTheEnd) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining(context, std::move(group), {}).run();
                       EXPECT_EQ(context.ledger.total(), 0);
                     });
}

// Promise 5: what was gathered is gone after reshard. SameBits shows that training never reads it.
TEST(Memory, IsPoisonedOnReshard) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), {.poison = true});
                       std::vector<Tensor> gathered;
                       training.sharded.summon_full_parameters([&](const nn::Parameter& parameter) {
                         gathered.push_back(parameter.data);
                         EXPECT_TRUE(std::isfinite(parameter.data.f32()[0]));
                       });
                       for (const Tensor& stale : gathered) {
                         for (const float x : stale.span<float>()) ASSERT_TRUE(std::isnan(x));
                       }
                     });
}

}  // namespace
}  // namespace nanofsdp::fsdp
