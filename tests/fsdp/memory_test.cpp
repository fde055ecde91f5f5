#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "fsdp/layout.h"
#include "support/closed_formula.h"
#include "support/layouts.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

using testing::kLayouts;

// The bytes that each strategy keeps, by hand and in float32, for n padded elements in shards of s.
// Each of 2 replicas updates a half of the optimizer's shard.
// The largest block has b elements and the root r. First come parameters, gradients and optimizer,
// then borrowed memory for both. A layout that copies borrows what is a slice in the flat layout.
std::array<std::int64_t, 5> closed_formula(const TinyOptions& o, std::int64_t n, std::int64_t s,
                                           std::int64_t b, std::int64_t r) {
  const std::int64_t two = 4 * (2 * b + r), each = 4 * (3 * b + r);  // three blocks
  const std::int64_t borrowed = o.no_sync ? each : two;
  const bool copies = o.layout == LayoutKind::per_parameter;
  if (o.strategy == ShardingStrategy::no_shard || s == n)
    return {4 * n, 4 * n, 8 * n, 0, 0};  // also on one rank
  if (o.strategy == ShardingStrategy::shard_optimizer) {
    if (copies) return {4 * s, 4 * s, 8 * s, each, each};
    return {4 * n, 4 * n, 8 * s, 0, 0};
  }
  if (copies && o.strategy == ShardingStrategy::shard_gradients)
    return {4 * s, 4 * s, 8 * s, each, borrowed};
  if (o.strategy == ShardingStrategy::shard_gradients) return {4 * n, 4 * s, 8 * s, 0, borrowed};
  if (o.strategy == ShardingStrategy::shard_grad_op) return {4 * s, 4 * s, 8 * s, each, borrowed};
  if (o.strategy == ShardingStrategy::hybrid_shard_optimizer)
    return {4 * 2 * s, 4 * 2 * s, 8 * s, two, borrowed};
  return {4 * s, 4 * s, 8 * s, two, borrowed};
}

constexpr MemoryClass kPlanned[] = {MemoryClass::parameter_shards, MemoryClass::gradient_shards,
                                    MemoryClass::optimizer, MemoryClass::unsharded_parameters,
                                    MemoryClass::unsharded_gradients};

// Promise 3: the closed formula, the plan and the ledger agree to the byte, after construction and
// at the peak of training. Initialisation has used a scratch of one parameter as activations.
TEST(Memory, IsTheClosedFormula) {
  const auto test = [](int world, const TinyOptions& o) {
    testing::run_ranks(
        Backend::local, world, [&](Context& context, std::unique_ptr<comm::Communicator> g) {
          TinyTraining training(context, std::move(g), o);
          for (std::int64_t step = 0; step < 2; ++step) training.step(step);
          std::vector<formula::UnitLayout> layouts;
          std::int64_t n = 0, s = 0;
          for (const Unit& unit : training.sharded.units()) {
            layouts.push_back({unit.rows()[0].layout()});
            n += layouts.back().whole_numel();
            s += layouts.back().shard_numel();
          }
          const auto expected =
              closed_formula(o, n, s, layouts[0].whole_numel(), layouts.back().whole_numel());
          const formula::Plan p = formula::plan(
              layouts, {.strategy = o.strategy, .layout = o.layout, .no_sync = o.no_sync},
              {.shard_size = training.mesh.shard_size(), .replicas = training.mesh.replicas()});
          EXPECT_EQ(p.init_scratch, 4 * 40 * 10);  // the largest parameter is c_fc
          EXPECT_GE(context.ledger.count(MemoryClass::activations).reserved_peak, p.init_scratch);
          for (std::size_t c = 0; c < std::size(kPlanned); ++c) {
            const MemoryCount count = context.ledger.count(kPlanned[c]);
            EXPECT_EQ(count.reserved, expected[c]) << name_of(o.strategy) << " class " << c;
            EXPECT_EQ(count.reserved_peak, expected[c]) << name_of(o.strategy) << " class " << c;
            EXPECT_EQ(p.of(kPlanned[c]), expected[c]) << name_of(o.strategy) << " class " << c;
          }
        });
  };
  for (const Sharding& sharding : kShardings) {
    for (const LayoutKind layout : kLayouts) {
      for (const bool no_sync : {false, true}) {
        for (const int world : {1, 2, 3, 4}) {
          if (sharding.replicates && world != 4) continue;
          test(world, {.strategy = sharding.strategy,
                       .layout = layout,
                       .forward_prefetch = 1,
                       .micro_steps = no_sync ? 3 : 1,
                       .no_sync = no_sync,
                       .shard_size = sharding.replicates ? 2 : 0});
        }
      }
    }
  }
}

// Between steps all borrowed memory has been given back, except where units stay unsharded.
TEST(Memory, IsNotBorrowedBetweenSteps) {
  for (const LayoutKind layout : kLayouts) {
    testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          TinyTraining training(context, std::move(group),
                                {.layout = layout, .forward_prefetch = 1});
          training.step(0);
          EXPECT_EQ(context.ledger.count(MemoryClass::unsharded_parameters).in_use, 0);
          EXPECT_EQ(context.ledger.count(MemoryClass::unsharded_gradients).in_use, 0);
        });
  }
}

// These are ZeRO's numbers for a model without padding: bytes for each parameter between two steps.
TEST(Memory, OfZeroAtFourRanksIs16And10And7And4BytesAParameter) {
  const std::vector<formula::UnitLayout> layouts = {{Layout({{"block", {96, 4}}}, 4, 4)},
                                                    {Layout({{"root", {32}}}, 4, 4)}};
  for (const auto& [strategy, bytes] :
       {std::pair(ShardingStrategy::no_shard, 16), std::pair(ShardingStrategy::shard_optimizer, 10),
        std::pair(ShardingStrategy::shard_gradients, 7), std::pair(ShardingStrategy::full_shard, 4),
        std::pair(ShardingStrategy::shard_grad_op, 4)}) {
    EXPECT_EQ(formula::plan(layouts, {.strategy = strategy}, {.shard_size = 4}).at_rest(),
              bytes * (96 * 4 + 32))
        << name_of(strategy);
  }
}

// In bfloat16 the master shard is kept, and a rounded whole copy is borrowed. Units share the
// wires. If the layout copies, float32 needs wires too.
TEST(Memory, OfBfloat16IsMasterShardsCopiesAndWires) {
  const auto test = [](ShardingStrategy strategy, LayoutKind layout, DType dtype) {
    const MixedPrecision precision{dtype, dtype};
    const Options options{
        .strategy = strategy, .layout = layout, .precision = precision, .forward_prefetch = 0};
    testing::run_ranks(
        Backend::local, 3, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          TinyTraining training(context, std::move(group),
                                {.strategy = strategy, .layout = layout, .precision = precision});
          training.step(0);
          std::vector<formula::UnitLayout> layouts;
          for (const Unit& unit : training.sharded.units()) {
            layouts.push_back({unit.rows()[0].layout()});
          }
          const formula::Plan p = formula::plan(layouts, options, {.shard_size = 3});
          for (const MemoryClass c : kPlanned) {
            EXPECT_EQ(context.ledger.count(c).reserved, p.of(c)) << name_of(c);
          }
          const bool copies =
              layout == LayoutKind::per_parameter && strategy != ShardingStrategy::no_shard;
          const std::int64_t row =
              // Elements of the largest unit.
              copies ? layouts[0].padded_numel() : layouts[0].whole_numel();
          const std::int64_t both = dtype == DType::bfloat16 ? 2 * 2 : copies ? 2 * 4 : 0;
          EXPECT_EQ(p.of(MemoryClass::communication), both * row);
          EXPECT_EQ(context.ledger.count(MemoryClass::communication).reserved,
                    both * row + formula::norm_bytes(3));
        });
  };
  for (const Sharding& sharding : kShardings) {
    if (sharding.replicates) continue;
    for (const LayoutKind layout : kLayouts) {
      test(sharding.strategy, layout, DType::float32);
      test(sharding.strategy, layout, DType::bfloat16);
    }
  }
}

// If the device computes in bfloat16, parameters keep the dtype in which they were sent: half the
// slots, no wire.
TEST(Memory, OfBfloat16ThatIsComputedWithIsHalfASlotAndNoWire) {
  const std::vector<formula::UnitLayout> layouts{
      {Layout({{"block", {24}}}, 2, 8)}, {Layout({{"root", {50}}}, 2, 8)}};  // 32 and 64 padded
  const auto of = [&](Device device, DType param, MemoryClass c) {
    return formula::plan(layouts, {.precision = {.param_dtype = param}},
                         {.shard_size = 2, .device = device})
        .of(c);
  };
  for (const Device device : {Device::cpu, Device::cuda}) {
    EXPECT_EQ(of(device, DType::float32, MemoryClass::unsharded_parameters), 4 * (32 + 64));
    EXPECT_EQ(of(device, DType::float32, MemoryClass::communication), 0);
    EXPECT_EQ(of(device, DType::bfloat16, MemoryClass::unsharded_gradients), 4 * (32 + 64));
  }
  EXPECT_EQ(of(Device::cpu, DType::bfloat16, MemoryClass::unsharded_parameters), 4 * (32 + 64));
  EXPECT_EQ(of(Device::cpu, DType::bfloat16, MemoryClass::communication), 2 * 64);
  EXPECT_EQ(of(Device::cuda, DType::bfloat16, MemoryClass::unsharded_parameters), 2 * (32 + 64));
  EXPECT_EQ(of(Device::cuda, DType::bfloat16, MemoryClass::communication), 0);
}

// A root that is larger than every block has slots of its own, so the blocks' slots stay small. The
// wires serve both.
TEST(Memory, OfALargeRootIsItsOwn) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          gpt::GPTConfig config = testing::kTiny;
          config.vocab_size = 300;
          const MixedPrecision precision{dtype, dtype};
          TinyTraining t(context, std::move(group), {.precision = precision},
                         std::make_unique<gpt::GPT>(config));
          t.step(0);
          std::vector<formula::UnitLayout> layouts;
          for (const Unit& unit : t.sharded.units()) layouts.push_back({unit.rows()[0].layout()});
          const std::int64_t block = layouts[0].padded_numel(),
                             root = layouts.back().padded_numel();
          ASSERT_GT(root, block);
          const formula::Plan p =
              formula::plan(layouts, {.precision = precision}, {.shard_size = 2});
          const std::int64_t wires = dtype == DType::bfloat16 ? 2 * 2 * root : 0;
          for (const auto& [c, bytes] :
               {std::pair(MemoryClass::unsharded_parameters, 4 * (2 * block + root)),
                std::pair(MemoryClass::unsharded_gradients, 4 * (2 * block + root)),
                std::pair(MemoryClass::communication, wires + formula::norm_bytes(2))}) {
            const bool is_wire = c == MemoryClass::communication;
            EXPECT_EQ(context.ledger.count(c).reserved, bytes) << name_of(c);
            EXPECT_EQ(p.of(c), is_wire ? wires : bytes) << name_of(c);
          }
        });
  }
}

TEST(Memory, IsNotAllocatedAfterTheFirstStep) {
  const auto test = [](Backend backend, const TinyOptions& options) {
    testing::run_ranks(backend, 2,
                       [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                         TinyTraining training(context, std::move(group), options);
                         training.step(0);
                         const std::int64_t allocations = context.ledger.allocations();
                         const std::int64_t peak = context.ledger.total_peak();
                         for (std::int64_t step = 1; step < 5; ++step) training.step(step);
                         EXPECT_EQ(context.ledger.allocations(), allocations);
                         EXPECT_EQ(context.ledger.total_peak(), peak);
                       });
  };
  for (const Backend backend : testing::backends()) {
    for (const LayoutKind layout : kLayouts) {
      for (const Sharding& sharding : kShardings) {
        if (sharding.replicates) continue;
        test(backend, {.strategy = sharding.strategy, .layout = layout, .micro_steps = 2});
      }
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

// Promise 5: gathered memory is overwritten after reshard. SameBits shows that training never reads
// it.
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

// Recompute keeps the inputs of all blocks, and the activations of one block at a time.
TEST(Memory, OfActivationsUnderRecomputeGrowsByOneInputABlock) {
  const auto activations = [](std::int64_t layers, bool recompute) {
    return testing::run_ranks(
        Backend::self, 1, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          gpt::GPTConfig config = testing::kTiny;
          config.n_layer = layers;
          TinyTraining t(context, std::move(group), {.recompute = recompute},
                         std::make_unique<gpt::GPT>(config));
          for (std::int64_t step = 0; step < 2; ++step) t.step(step);
          return std::vector<std::int64_t>{context.ledger.count(MemoryClass::activations).reserved};
        })[0][0];
  };
  const std::int64_t input = testing::kRows * testing::kTiny.block_size * testing::kTiny.n_embd * 4;
  const std::int64_t aligned = (input + 63) / 64 * 64;
  EXPECT_EQ(activations(5, true) - activations(4, true), aligned);
  EXPECT_GT(activations(5, false) - activations(4, false), 10 * aligned);
  EXPECT_GT(activations(5, false), 3 * activations(5, true) / 2);
}

}  // namespace
}  // namespace nanofsdp::fsdp
