#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/layouts.h"
#include "support/ranks.h"
#include "support/reference.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::Reference;
using testing::TinyOptions;
using testing::TinyTraining;
using testing::train;

std::string words(const TinyOptions& o) {
  return fmt::format("{}{}, {} micro-steps{}, forward prefetch {}, backward {}{}{}{}",
                     name_of(o.strategy), o.layout == LayoutKind::flat ? "" : " per parameter",
                     o.micro_steps, o.no_sync ? " (no_sync)" : "", o.forward_prefetch,
                     static_cast<int>(o.prefetch), o.pool ? "" : ", no pool",
                     o.recompute ? ", recompute" : "", o.poison ? ", poison" : "");
}

using Ranks = std::tuple<Backend, int, LayoutKind>;

class SameBits : public ::testing::TestWithParam<Ranks> {
 protected:
  // The layout only decides which squares of the norm each rank adds up.
  std::vector<std::vector<float>> reference(TinyOptions options = {}) {
    const auto [backend, world, layout] = GetParam();
    options.layout = layout;
    return Reference(world, options).run();
  }
  void expect(TinyOptions options, const std::vector<std::vector<float>>& expected) {
    const auto [backend, world, layout] = GetParam();
    options.layout = layout;
    EXPECT_EQ(train(backend, world, options), expected) << words(options);
  }
};

constexpr ShardingStrategy kAll[] = {ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
                                     ShardingStrategy::shard_gradients,
                                     ShardingStrategy::shard_grad_op, ShardingStrategy::full_shard};

// Promise 1: at a fixed world size, all strategies give the same bits: losses, gradient norms and
// final weights. They are those of a reference that adds the ranks in order.
TEST_P(SameBits, WhateverTheStrategy) {
  const auto expected = reference();
  for (ShardingStrategy strategy : kAll) {
    for (const bool no_sync : {false, true})
      expect({.strategy = strategy, .no_sync = no_sync}, expected);
  }
}

// All schedules give the same bits, too.
TEST_P(SameBits, WhateverTheSchedule) {
  const Backend backend = std::get<Backend>(GetParam());
  const auto expected = reference();
  for (const BackwardPrefetch prefetch :
       {BackwardPrefetch::none, BackwardPrefetch::pre, BackwardPrefetch::post}) {
    for (const int forward_prefetch : {0, 1, 2, 9}) {
      if (backend != Backend::local && forward_prefetch != 1) continue;  // processes start slowly
      TinyOptions o{.prefetch = prefetch, .forward_prefetch = forward_prefetch};
      expect(o, expected);
      o.poison = false;
      expect(o, expected);
      o.recompute = true;
      expect(o, expected);
      o.pool = false;
      expect(o, expected);
    }
  }
}

// Micro-steps are added in one of two orders: each is reduced and added to the shard, or a rank
// first adds up its own.
TEST_P(SameBits, WhateverTheStrategyInEitherAccumulationMode) {
  for (const bool no_sync : {false, true}) {
    const auto reduced_each =
        reference({.strategy = ShardingStrategy::full_shard, .micro_steps = 3, .no_sync = no_sync});
    const auto reduced_once = reference({.strategy = ShardingStrategy::no_shard, .micro_steps = 3});
    EXPECT_EQ(reduced_each == reduced_once, no_sync);
    for (ShardingStrategy strategy : kAll) {
      for (const bool recompute : {false, true}) {
        expect({.strategy = strategy,
                .forward_prefetch = 1,
                .micro_steps = 3,
                .no_sync = no_sync,
                .recompute = recompute},
               sharding_of(strategy).gradients ? reduced_each : reduced_once);
      }
    }
  }
}

// bfloat16 rounds the same numbers under every strategy: the weights that are sent to the layers,
// each rank's gradient, and the sum. The master weights stay float32.
TEST_P(SameBits, WhateverTheStrategyInBfloat16) {
  for (const auto& [param, reduce] :
       {std::pair(DType::bfloat16, DType::float32), std::pair(DType::float32, DType::bfloat16),
        std::pair(DType::bfloat16, DType::bfloat16)}) {
    const MixedPrecision precision{param, reduce};
    const auto expected = reference({.precision = precision});
    for (ShardingStrategy strategy : kAll) {
      expect({.strategy = strategy, .forward_prefetch = 1, .precision = precision}, expected);
    }
  }
}

// Processes take ten times as long to start as threads. So there are three of them, in the flat
// layout; `make test-all` takes every number of ranks and all layouts.
std::vector<Ranks> worlds(bool quick) {
  std::vector<Ranks> result;
  for (const LayoutKind layout : testing::kLayouts) {
    for (const Backend backend : testing::backends()) {
      for (const int ranks : {2, 3, 4}) {
        const bool in_threes = ranks == 3 && layout == LayoutKind::flat;
        if (quick != (backend == Backend::local || in_threes)) continue;
        result.emplace_back(backend, ranks, layout);
      }
    }
  }
  return result;
}

std::string name_of(const ::testing::TestParamInfo<Ranks>& info) {
  const auto& [backend, ranks, layout] = info.param;
  return testing::name_of(backend) + "_" + std::to_string(ranks) +
         (layout == LayoutKind::flat ? "" : "_" + testing::name_of(layout));
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, ::testing::ValuesIn(worlds(true)), name_of);
INSTANTIATE_TEST_SUITE_P(Long, SameBits, ::testing::ValuesIn(worlds(false)), name_of);

// The reduced gradients of a rank after one step, at their places in the whole, and NaN elsewhere.
std::vector<float> gradients(TinyTraining& training) {
  std::vector<float> all;
  for (const ShardedParameters* row : training.sharded.rows()) {
    for (std::size_t i = 0; i < row->parameters().size(); ++i) {
      const auto [in_shard, in_parameter] = row->owned(i);
      const auto begin = static_cast<std::ptrdiff_t>(all.size()) + in_parameter.begin;
      const auto numel = static_cast<std::size_t>(row->parameters()[i]->shape.numel());
      all.resize(all.size() + numel, std::numeric_limits<float>::quiet_NaN());
      std::ranges::copy(row->gradient_shard().slice(in_shard.begin, in_shard.size()).span<float>(),
                        all.begin() + begin);
    }
  }
  return all;
}

// The gradients of all ranks together: each element comes from a rank that has it.
std::vector<float> whole_gradients(Backend backend, int world, const TinyOptions& options) {
  const auto of_ranks = testing::run_ranks(
      backend, world, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining training(context, std::move(group), options);
        training.step(0);
        return gradients(training);
      });
  std::vector<float> whole = of_ranks[0];
  for (const auto& of_rank : of_ranks) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (std::isnan(whole[i])) whole[i] = of_rank[i];
    }
  }
  return whole;
}

// All layouts add the same numbers in the same order. So gradients have the same bits, and weights
// too, as long as nothing is clipped. The norm adds squares shard by shard, and shards have other
// elements, so a clipped weight may be rounded in another way.
TEST(Layouts, DifferInTheRoundingOfTheNormOnly) {
  for (const Backend backend : testing::backends()) {
    for (const Sharding& sharding : kShardings) {
      for (const DType dtype : {DType::float32, DType::bfloat16}) {
        const bool usual =
            dtype == DType::float32 && sharding.strategy == ShardingStrategy::full_shard;
        if (backend != Backend::local && !usual) continue;  // processes start slowly
        const int world = sharding.replicates ? 4 : 3;
        TinyOptions flat{.strategy = sharding.strategy,
                         .precision = {dtype, dtype},
                         .shard_size = sharding.replicates ? 2 : 0};
        for (const LayoutKind kind : {LayoutKind::per_parameter, LayoutKind::row_aligned}) {
          TinyOptions rows = flat;
          rows.layout = kind;
          EXPECT_EQ(whole_gradients(backend, world, rows), whole_gradients(backend, world, flat))
              << words(rows);
          for (const double clip : {0.0, testing::kTinyClip}) {
            flat.clip = rows.clip = clip;
            const auto one = train(backend, world, flat)[0];
            const auto other = train(backend, world, rows)[0];
            for (std::size_t i = 0; i < one.size(); ++i) {
              const bool is_norm = i < 2 * testing::kTinySteps && i % 2 == 1;
              const double allowed = clip > 0 || is_norm ? 1e-6 : 0;
              ASSERT_NEAR(other[i], one[i], allowed) << i << ", " << words(rows);
            }
          }
        }
      }
    }
  }
}

// Groups of two sum their own ranks first, and then the groups. A group of all ranks is full_shard.
// This takes two seconds or more, because most of the ranks are processes.
TEST(HybridShard, GivesTheBitsOfSumsByGroup) {
  for (const Backend backend : testing::backends()) {
    for (const std::int64_t micro_steps : {1, 3}) {
      const TinyOptions hybrid{.strategy = ShardingStrategy::hybrid_shard,
                               .forward_prefetch = 1,
                               .micro_steps = micro_steps,
                               .shard_size = 2};
      const auto expected = Reference(4, hybrid).run();  // ends its threads before ranks are forked
      EXPECT_EQ(train(backend, 4, hybrid), expected);
      const TinyOptions all{
          .strategy = ShardingStrategy::hybrid_shard, .micro_steps = micro_steps, .shard_size = 3};
      EXPECT_EQ(train(backend, 3, all),
                train(backend, 3,
                      {.strategy = ShardingStrategy::full_shard, .micro_steps = micro_steps}));
    }
  }
}

TEST(HybridShard, IsFullShardUpToRounding) {
  const auto hybrid =
      train(Backend::local, 4, {.strategy = ShardingStrategy::hybrid_shard, .shard_size = 2});
  const auto full = train(Backend::local, 4, {});
  EXPECT_NE(hybrid, full);
  for (std::size_t i = 0; i < 2 * testing::kTinySteps; ++i) {  // losses and norms
    EXPECT_NEAR(hybrid[0][i] / full[0][i], 1, 1e-6);
  }
}

TEST(HybridShard, WantsItsStrategyAndGroupsThatDivide) {
  EXPECT_THROW(
      train(Backend::local, 4, {.strategy = ShardingStrategy::full_shard, .shard_size = 2}),
      testing::RankError);
  EXPECT_THROW(
      train(Backend::local, 4, {.strategy = ShardingStrategy::hybrid_shard, .shard_size = 3}),
      testing::RankError);
}

// Another number of ranks adds in another order. Nothing else changes.
TEST(WorldSize, ChangesNoMoreThanRounding) {
  const auto sum_of_losses = [](const std::vector<std::vector<float>>& records, std::size_t at) {
    double sum = 0;
    for (const auto& record : records) sum += record[at];
    return sum;
  };
  const auto one = train(Backend::self, 1, {});
  for (const int world : {2, 3, 4}) {
    const auto many = train(Backend::local, world, {});
    for (std::size_t step = 0; step < testing::kTinySteps; ++step) {
      EXPECT_NEAR(sum_of_losses(many, 2 * step) / sum_of_losses(one, 2 * step), 1, 1e-6);
      EXPECT_NEAR(many[0][2 * step + 1] / one[0][2 * step + 1], 1, 1e-6);
    }
  }
}

// Micro-steps of a third of the rows add up to the same gradient, in shards and in whole gradients.
TEST(Accumulation, GivesTheGradientOfAllMicroSteps) {
  for (ShardingStrategy strategy : {ShardingStrategy::full_shard, ShardingStrategy::no_shard}) {
    const auto one = train(Backend::self, 1, {.strategy = strategy, .micro_steps = 3});
    const auto two = train(Backend::local, 2, {.strategy = strategy, .micro_steps = 3});
    for (std::size_t step = 0; step < testing::kTinySteps; ++step) {
      EXPECT_NEAR((two[0][2 * step] + two[1][2 * step]) / one[0][2 * step], 1, 1e-6);
      EXPECT_NEAR(two[0][2 * step + 1] / one[0][2 * step + 1], 1, 1e-6);
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
