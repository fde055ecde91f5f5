#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/closed_formula.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

// Names the frozen parameters by a part of their name.
using Frozen = std::vector<std::string>;

bool is_frozen(const Frozen& frozen, const std::string& name) {
  return std::ranges::any_of(
      frozen, [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

// A GPT with some parameters that are frozen before it is sharded.
std::unique_ptr<gpt::GPT> model_with(const Frozen& frozen) {
  auto model = std::make_unique<gpt::GPT>(testing::kTiny);
  for (nn::Parameter* p : model->named_parameters()) p->requires_grad = !is_frozen(frozen, p->name);
  return model;
}

std::vector<float> weights_after(int world, const TinyOptions& options, const Frozen& frozen) {
  return testing::run_ranks(
      world == 1 ? Backend::self : Backend::local, world,
      [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        return TinyTraining(context, std::move(group), options, model_with(frozen)).run();
      })[0];
}

// A frozen parameter is gathered like any other and keeps its value. The rest trains as if it were
// a constant, under every strategy.
TEST(Frozen, ParametersKeepTheirValuesUnderEveryStrategy) {
  const Frozen frozen = {"attn.c_attn", "ln_2", "wpe"};
  const std::vector<float> whole =
      weights_after(2, {.strategy = ShardingStrategy::no_shard}, frozen);
  EXPECT_NE(whole, weights_after(2, {.strategy = ShardingStrategy::no_shard}, {}));
  for (ShardingStrategy strategy :
       {ShardingStrategy::shard_optimizer, ShardingStrategy::shard_gradients,
        ShardingStrategy::shard_grad_op, ShardingStrategy::full_shard}) {
    EXPECT_EQ(weights_after(2, {.strategy = strategy, .forward_prefetch = 1}, frozen), whole)
        << name_of(strategy);
  }
  const TinyOptions unsharded{.strategy = ShardingStrategy::no_shard,
                              .layout = LayoutKind::per_parameter};
  TinyOptions sharded = unsharded;
  for (const ShardingStrategy strategy :
       {ShardingStrategy::shard_optimizer, ShardingStrategy::full_shard}) {
    sharded.strategy = strategy;
    EXPECT_EQ(weights_after(2, sharded, frozen), weights_after(2, unsharded, frozen));
  }
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining t(context, std::move(group), {}, model_with(frozen));
        const std::vector<float> before = t.weights();
        t.step(0);
        const std::vector<float> after = t.weights();
        std::size_t at = 0;
        for (const ShardedParameters* row : t.sharded.rows()) {
          for (const nn::Parameter* p : row->parameters()) {
            const auto n = static_cast<std::size_t>(p->shape.numel());
            const bool same =
                std::equal(before.begin() + at, before.begin() + at + n, after.begin() + at);
            EXPECT_EQ(same, is_frozen(frozen, p->name)) << p->name;
            EXPECT_EQ(p->grad().empty(), !p->requires_grad || p->data.numel() == 0);
            at += n;
          }
        }
      });
}

// Any parameters may be frozen. One that lies between two parameters that decay also keeps its
// value, when the optimizer updates a whole unit or a shard.
TEST(Frozen, ParametersKeepTheirValuesBetweenAnyNeighbours) {
  const auto test = [](ShardingStrategy strategy, unsigned seed) {
    testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          std::mt19937 random(seed);
          auto model = std::make_unique<gpt::GPT>(testing::kTiny);
          for (nn::Parameter* p : model->named_parameters()) p->requires_grad = random() % 2 == 0;
          TinyTraining t(context, std::move(group), {.strategy = strategy}, std::move(model));
          const auto frozen_values = [&] {
            std::map<std::string, std::vector<float>> values;
            t.sharded.summon_full_parameters([&](const nn::Parameter& p) {
              const std::span<float> data = p.data.span<float>();
              if (!p.requires_grad) values[p.name] = {data.begin(), data.end()};
            });
            return values;
          };
          const auto before = frozen_values();
          t.step(0);
          EXPECT_EQ(frozen_values(), before) << name_of(strategy) << ", seed " << seed;
        });
  };
  for (unsigned seed = 1; seed <= 8; ++seed) {
    for (const Sharding& sharding : kShardings) test(sharding.strategy, seed);
  }
}

// A frozen parameter has no gradient and no moments, in memory and in the plan, and no reduction.
// If whole copies are kept, it is gathered once.
TEST(Frozen, ParametersCostWhatIsPlanned) {
  const auto test = [](ShardingStrategy strategy, LayoutKind layout, unsigned seed) {
    testing::run_ranks(
        Backend::local, 4, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          std::mt19937 random(seed);
          auto model = std::make_unique<gpt::GPT>(testing::kTiny);
          std::int64_t trains = 0;
          for (nn::Parameter* p : model->named_parameters()) {
            p->requires_grad = random() % 3 == 0;
            if (p->requires_grad) trains += p->shape.numel();
            if (!p->requires_grad && random() % 2 == 0) p->dtype = DType::bfloat16;
          }
          const int shard_size = sharding_of(strategy).replicates ? 2 : 4;
          const TinyOptions options{
              .strategy = strategy, .layout = layout, .micro_steps = 2, .shard_size = shard_size};
          TinyTraining t(context, std::move(group), options, std::move(model));
          t.step(0);
          const comm::Traffic before = t.mesh.traffic();
          t.step(1);
          const comm::Traffic step = t.mesh.traffic() - before;
          const std::vector<formula::UnitLayout> layouts = formula::layouts_of(t.sharded.units());
          const formula::Plan plan = formula::plan(
              layouts, {.strategy = strategy, .layout = layout, .forward_prefetch = 0},
              {.shard_size = shard_size, .replicas = 4 / shard_size, .micro_steps = 2});
          for (const MemoryClass c :
               {MemoryClass::parameter_shards, MemoryClass::gradient_shards, MemoryClass::optimizer,
                MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients}) {
            EXPECT_EQ(context.ledger.count(c).reserved, plan.of(c))
                << nanofsdp::name_of(c) << ", " << name_of(strategy) << ", seed " << seed;
          }
          EXPECT_EQ(context.ledger.count(MemoryClass::communication).reserved,
                    plan.of(MemoryClass::communication) + formula::norm_bytes(4))
              << name_of(strategy) << ", seed " << seed;
          if (strategy == ShardingStrategy::no_shard) {
            EXPECT_LT(plan.of(MemoryClass::optimizer), 8 * trains + 8 * 4 * 40) << "and padding";
          }
          EXPECT_EQ(step.all_gathers, plan.step.all_gathers) << name_of(strategy);
          EXPECT_EQ(step.reduce_scatters, plan.step.reduce_scatters) << name_of(strategy);
          EXPECT_EQ(step.all_reduces, plan.step.all_reduces) << name_of(strategy);
          EXPECT_EQ(step.bytes_sent, plan.step.bytes_sent) << name_of(strategy);
        });
  };
  for (unsigned seed = 1; seed <= 4; ++seed) {
    for (const Sharding& sharding : kShardings) {
      test(sharding.strategy, LayoutKind::flat, seed);
      test(sharding.strategy, LayoutKind::per_parameter, seed);
    }
  }
}

// A unit without trainable parameters is gathered and freed like others, and never reduced.
TEST(Frozen, UnitIsNeverReduced) {
  const Frozen frozen = {"transformer.h.1."};
  const std::vector<float> whole =
      weights_after(2, {.strategy = ShardingStrategy::no_shard}, frozen);
  EXPECT_EQ(weights_after(2, {}, frozen), whole);
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining t(context, std::move(group), {.micro_steps = 2}, model_with(frozen));
        t.step(0);
        const comm::Traffic before = t.mesh.traffic();
        t.step(1);
        const comm::Traffic step = t.mesh.traffic() - before;
        EXPECT_EQ(step.all_gathers, 2 * 7);
        EXPECT_EQ(step.reduce_scatters, 2 * 3);
      });
}

// Such a unit does not wait for the end of backward: it is freed before the next one has its
// gradients.
TEST(Frozen, UnitIsFreedAfterItsBackward) {
  testing::run_ranks(
      Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining t(context, std::move(group), {}, model_with({"transformer.h.1."}));
        context.tracer.start();
        t.step(0);
        const std::vector<std::string> order = context.tracer.take_order();
        const auto freed = std::ranges::find(order.rbegin(), order.rend(), "R.transformer.h.1");
        const auto next = std::ranges::find(order.rbegin(), order.rend(), "RS.transformer.h.0");
        ASSERT_NE(freed, order.rend());
        EXPECT_GT(freed, next) << "counted from the end";
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp
