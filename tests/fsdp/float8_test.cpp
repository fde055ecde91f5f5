#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/closed_formula.h"
#include "support/errors.h"
#include "support/layouts.h"
#include "support/ranks.h"
#include "support/reference.h"
#include "support/tiny_training.h"

// Parameters that are gathered in float8_e4m3.

namespace nanofsdp::fsdp::float8_test {
namespace {

using testing::Backend;
using testing::Reference;
using testing::TinyOptions;
using testing::TinyTraining;
using testing::train;

// Blocks of 128 elements of each shard share a scale. All strategies that gather send the same
// shards. A strategy that gathers nothing cuts the whole into as many parts: in the two layouts
// whose row is the whole, these are the same shards.
void expect_same_bits(Backend backend, int world, LayoutKind layout, DType reduce) {
  TinyOptions usual{.layout = layout, .forward_prefetch = 1};
  usual.precision = {DType::float8_e4m3, reduce};
  const auto expected = Reference(world, usual).run();
  TinyOptions no_shard = usual;
  no_shard.strategy = ShardingStrategy::no_shard;
  const auto whole = Reference(world, no_shard).run();
  EXPECT_EQ(whole == expected, layout != LayoutKind::per_parameter);
  EXPECT_EQ(train(backend, world, no_shard), whole);
  for (const ShardingStrategy strategy :
       {ShardingStrategy::shard_optimizer, ShardingStrategy::shard_gradients,
        ShardingStrategy::shard_grad_op, ShardingStrategy::full_shard}) {
    TinyOptions o = usual;
    o.strategy = strategy;
    EXPECT_EQ(train(backend, world, o), expected) << name_of(strategy);
  }
  if (backend != Backend::local) return;  // processes start slowly
  for (const BackwardPrefetch prefetch :
       {BackwardPrefetch::none, BackwardPrefetch::pre, BackwardPrefetch::post}) {
    for (const bool other : {false, true}) {
      TinyOptions o = usual;
      o.prefetch = prefetch;
      o.forward_prefetch = other ? 2 : 0;
      o.recompute = other;
      o.pool = o.poison = !other;
      EXPECT_EQ(train(backend, world, o), expected) << static_cast<int>(prefetch) << other;
    }
  }
}

TEST(Float8, GivesTheSameBitsWhateverTheStrategyAndSchedule) {
  for (const LayoutKind layout : testing::kLayouts) {
    for (const int world : {2, 3, 4}) {
      SCOPED_TRACE(testing::name_of(layout) + " " + std::to_string(world));
      expect_same_bits(Backend::local, world, layout,
                       world == 3 ? DType::bfloat16 : DType::float32);
    }
  }
}

TEST(Float8, GivesTheSameBitsBetweenProcesses) {
  for (const Backend backend : testing::backends()) {
    if (backend == Backend::local) continue;
    for (const LayoutKind layout : testing::kLayouts) {
      SCOPED_TRACE(testing::name_of(backend) + " " + testing::name_of(layout));
      expect_same_bits(backend, 3, layout, DType::float32);
    }
  }
}

// Losses and weights. Norms are added up shard by shard, so their last bits depend on the layout.
std::vector<float> losses_and_weights(LayoutKind layout, ShardingStrategy strategy,
                                      const gpt::GPTConfig& config) {
  std::vector<std::vector<float>> all(2);
  testing::run_ranks(Backend::local, 2, [&](Context& context, auto world) {
    TinyOptions o{.strategy = strategy, .layout = layout, .clip = 0};
    o.precision.param_dtype = DType::float8_e4m3;
    TinyTraining t(context, std::move(world), o, std::make_unique<gpt::GPT>(config));
    std::vector<float> record = t.run();
    for (std::int64_t step = 0; step < o.steps; ++step) record.erase(record.begin() + step + 1);
    all[static_cast<std::size_t>(context.rank)] = std::move(record);
  });
  return all[0];
}

// A scale belongs to neighbours in a shard. So the bits are the same in all layouts if each layout
// cuts between the same blocks, and else they are not.
TEST(Float8, GivesTheSameBitsInAllLayoutsThatCutBetweenTheSameBlocks) {
  gpt::GPTConfig even = testing::kTiny;
  even.vocab_size = 14, even.n_layer = 1, even.n_embd = 256, even.bias = false;
  even.block_size = 8;
  for (const gpt::GPTConfig& config : {even, testing::kTiny}) {
    const auto expected =
        losses_and_weights(LayoutKind::flat, ShardingStrategy::full_shard, config);
    for (const LayoutKind layout : testing::kLayouts) {
      for (const auto strategy :
           {ShardingStrategy::full_shard, ShardingStrategy::shard_optimizer}) {
        const bool same = layout == LayoutKind::flat || config.n_embd == even.n_embd;
        EXPECT_EQ(losses_and_weights(layout, strategy, config) == expected, same)
            << testing::name_of(layout) << config.n_embd;
      }
    }
  }
}

// Eight bits change a training, so it is neither that of bfloat16 nor that of float32.
TEST(Float8, IsNeitherBfloat16NorFloat32) {
  const auto loss = [](DType dtype) {
    return train(Backend::local, 2, {.precision = {.param_dtype = dtype}})[0][0];
  };
  EXPECT_NE(loss(DType::float8_e4m3), loss(DType::bfloat16));
  EXPECT_NE(loss(DType::float8_e4m3), loss(DType::float32));
  EXPECT_NEAR(loss(DType::float8_e4m3) / loss(DType::float32), 1, 0.01);
}

TEST(Float8, IsRefusedForGradients) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> world) {
                       testing::expect_error<UsageError>(
                           [&] {
                             TinyTraining(context, std::move(world),
                                          {.precision = {.reduce_dtype = DType::float8_e4m3}});
                           },
                           "reduce_dtype: expected float32 or bfloat16, got float8_e4m3");
                     });
}

constexpr MemoryClass kAllPlanned[] = {MemoryClass::parameter_shards, MemoryClass::gradient_shards,
                                       MemoryClass::optimizer, MemoryClass::unsharded_parameters,
                                       MemoryClass::unsharded_gradients};

// In float8_e4m3 the wire has a message for each shard: a byte for each element, and 4 for each
// 128. The whole copy is what bfloat16 needs.
TEST(Float8, TakesAWireOfMessages) {
  for (const Sharding& sharding : kShardings) {
    if (sharding.replicates) continue;
    for (const LayoutKind layout : testing::kLayouts) {
      std::int64_t planned[2];
      for (const DType dtype : {DType::bfloat16, DType::float8_e4m3}) {
        const MixedPrecision precision{.param_dtype = dtype};
        const Options options{.strategy = sharding.strategy,
                              .layout = layout,
                              .precision = precision,
                              .forward_prefetch = 0};
        testing::run_ranks(
            Backend::local, 3, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
              TinyTraining training(
                  context, std::move(group),
                  {.strategy = sharding.strategy, .layout = layout, .precision = precision});
              training.step(0);
              std::vector<formula::UnitLayout> layouts;
              std::int64_t wire = 0, gradients = 0;
              for (const Unit& unit : training.sharded.units()) {
                layouts.push_back({unit.rows()[0].layout()});
                const std::int64_t row = layouts.back().trained.travels(options), s = row / 3;
                wire = std::max(wire, 3 * (s + (s + 127) / 128 * 4));  // s is a multiple of 4
                gradients = std::max(gradients, options.copies() ? 4 * row : 0);
              }
              const formula::Plan p = formula::plan(layouts, options, {.shard_size = 3});
              for (const MemoryClass c : kAllPlanned) {
                EXPECT_EQ(context.ledger.count(c).reserved, p.of(c)) << name_of(c);
              }
              const std::int64_t communication =
                  context.ledger.count(MemoryClass::communication).reserved_peak;
              EXPECT_EQ(communication, p.of(MemoryClass::communication) + formula::norm_bytes(3));
              if (dtype == DType::float8_e4m3) {
                EXPECT_EQ(communication, wire + gradients + formula::norm_bytes(3));
              }
              if (context.rank == 0) {
                planned[dtype == DType::bfloat16 ? 0 : 1] = p.of(MemoryClass::unsharded_parameters);
              }
            });
      }
      EXPECT_EQ(planned[0], planned[1]);
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp::float8_test
