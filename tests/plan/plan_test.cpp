#include "plan/plan.h"
#include "plan/recipes.h"
#include "plan/shapes.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/mixed_precision.h"
#include "gpt/gpt.h"
#include "support/ranks.h"
#include "support/tensors.h"
#include "support/tiny_training.h"

// The calculator's arithmetic: the papers' figures, the sizes of known models, and that what is
// planned from shapes is what the ledger measures.

namespace nanofsdp::plan {
namespace {

using testing::kTiny;

constexpr double kGigabyte = 1e9;

// ZeRO (arXiv 1910.02054), figure 1 and section 3.1: 7.5 billion parameters, 64 ranks.
TEST(PapersCount, IsZeroFigure1) {
  const Recipe& recipe = kRecipes[2];
  EXPECT_EQ(recipe.name, "master weights (O2)");
  const double figure[] = {120, 31.40625, 16.640625, 1.875};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_DOUBLE_EQ(7.5e9 * recipe.bytes_a_parameter(stage, 64) / kGigabyte, figure[stage]);
  }
}

// Bytes a parameter of each recipe, whole; and on 4 ranks, by hand.
TEST(PapersCount, DividesWhatTheStageShards) {
  const double on_4[][4] = {
      {16, 10, 7, 4},   // 4, 4, 8
      {18, 9, 6, 4.5},  // 2, 4, 12
      {16, 7, 5.5, 4},  // 2, 2, 12
      {8, 5, 3.5, 2},   // 2, 2, 4
  };
  for (std::size_t i = 0; i < kRecipes.size(); ++i) {
    EXPECT_EQ(kRecipes[i].bytes_a_parameter(), on_4[i][0]) << kRecipes[i].name;
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(kRecipes[i].bytes_a_parameter(stage, 4), on_4[i][stage]) << kRecipes[i].name;
    }
  }
}

std::int64_t numel_of(const std::vector<fsdp::ParameterSpec>& unit) {
  std::int64_t numel = 0;
  for (const fsdp::ParameterSpec& p : unit) numel += p.numel();
  return numel;
}

std::int64_t numel_of(const UnitShapes& units) {
  std::int64_t numel = 0;
  for (const auto& unit : units) numel += numel_of(unit);
  return numel;
}

// What their publishers' checkpoints hold.
TEST(Shapes, AreThoseOfKnownModels) {
  const auto gpt2 = [](std::int64_t n_layer, std::int64_t n_embd) {
    return numel_of(
        gpt_shapes({.vocab_size = 50257, .n_layer = n_layer, .n_head = 1, .n_embd = n_embd}));
  };
  EXPECT_EQ(gpt2(12, 768), 124'439'808);
  EXPECT_EQ(gpt2(24, 1024), 354'823'168);
  EXPECT_EQ(gpt2(36, 1280), 774'030'080);
  EXPECT_EQ(gpt2(48, 1600), 1'557'611'200);
  EXPECT_EQ(numel_of(llama_shapes(kLlama7B)), 6'738'415'616);
  EXPECT_EQ(numel_of(llama_shapes(kLlama70B)), 68'976'648'192);
  EXPECT_EQ(numel_of(llama_shapes(kLlama70B)[0]), 855'654'400);
}

TEST(Shapes, OfABareNumberAreUnitsAndARest) {
  for (const std::int64_t numel : {1, 63, 70, 72}) {
    for (const std::int64_t unit : {1, 9, 70, 71, 100}) {
      const UnitShapes units = bare_shapes(numel, unit);
      ASSERT_EQ(std::ssize(units), numel / unit + 1) << numel << " in units of " << unit;
      for (std::size_t i = 0; i + 1 < units.size(); ++i) EXPECT_EQ(numel_of(units[i]), unit);
      EXPECT_EQ(numel_of(units.back()), numel % unit);
    }
    EXPECT_EQ(bare_shapes(numel, 0).size(), 1u);
    EXPECT_EQ(numel_of(bare_shapes(numel, 0)), numel);
  }
}

TEST(Shapes, MergeBlocksAndLeaveTheRoot) {
  const UnitShapes pairs = merged({{{"a", {1}}}, {{"b", {2}}}, {{"c", {4}}}, {{"root", {8}}}}, 2);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0][1].name, "b");
  EXPECT_EQ(numel_of(pairs[1]), 4);
  EXPECT_EQ(numel_of(pairs[2]), 8);
}

// Modules in turn: a unit of several blocks, or what is around them.
class Turns final : public nn::Module {
 public:
  explicit Turns(std::vector<std::unique_ptr<nn::Module>> modules) : modules_(std::move(modules)) {
    for (std::size_t i = 0; i < modules_.size(); ++i) add(std::to_string(i), *modules_[i]);
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (const auto& module : modules_) x = module->forward(tape, x);
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    for (std::size_t i = modules_.size(); i-- > 0;) dy = modules_[i]->backward(tape, dy);
    return dy;
  }
  std::vector<std::unique_ptr<nn::Module>> modules_;
};

// `blocks` blocks a unit, `units` of them, and a root that has a LayerNorm.
Turns stack(int units, int blocks) {
  std::vector<std::unique_ptr<nn::Module>> all;
  for (int u = 0; u < units; ++u) {
    std::vector<std::unique_ptr<nn::Module>> unit;
    for (int b = 0; b < blocks; ++b) unit.push_back(std::make_unique<gpt::Block>(kTiny, 1));
    all.push_back(std::make_unique<Turns>(std::move(unit)));
  }
  all.push_back(std::make_unique<nn::LayerNorm>(kTiny.n_embd, true));
  return Turns(std::move(all));
}

// A real step, and the plan from the shapes of single blocks.
void expect_planned(int blocks, const fsdp::Options& given, int world, int shard_size) {
  fsdp::Options options = given;
  options.wrap_policy = [](const nn::Module& m) {
    return dynamic_cast<const Turns*>(&m) != nullptr;
  };
  UnitShapes shapes = gpt_shapes(kTiny);
  const auto block = shapes[0];
  shapes.assign(static_cast<std::size_t>(4), block);
  shapes.push_back({{"weight", {kTiny.n_embd}}, {"bias", {kTiny.n_embd}}});
  const plan::Workload workload{shard_size, world / shard_size};
  const auto layouts = plan::lay_out(merged(shapes, blocks), options, workload);
  const plan::Plan planned = plan::plan(layouts, options, workload);

  testing::run_ranks(
      testing::Backend::local, world,
      [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        Turns model = stack(4 / blocks, blocks);
        comm::Mesh mesh(std::move(group), shard_size);
        fsdp::ShardedModel sharded(context, model, mesh, options);
        const fsdp::AdamW optimizer(context, sharded.units(), {});
        Generator generator(1);
        fsdp::deferred_init(context, sharded.units(), fsdp::breadth_first_draws(sharded.units()),
                            generator);
        ASSERT_EQ(sharded.units().size(), layouts.size());
        for (std::size_t i = 0; i < layouts.size(); ++i) {
          const fsdp::FlatLayout& real = sharded.units()[i].rows()[0].layout();
          EXPECT_EQ(real.shard_numel(), layouts[i].shard_numel());
          EXPECT_EQ(real.total_numel(), layouts[i].total_numel());
        }
        nn::Tape tape(context);
        testing::Owned<float> x({1, kTiny.block_size, kTiny.n_embd}), dy = x;
        for (int step = 0; step < 2; ++step) {
          mesh.reset_traffic();
          sharded.zero_grad();
          tape.begin(/*training=*/true, {.seed = 1});
          sharded.forward(tape, x);
          sharded.backward(tape, dy);
        }
        for (const MemoryClass c : kMemoryClasses) {
          if (c == MemoryClass::activations) continue;
          EXPECT_EQ(context.ledger.count(c).reserved, planned.of(c)) << name_of(c);
        }
        if (options.strategy == fsdp::ShardingStrategy::shard_optimizer ||
            options.strategy == fsdp::ShardingStrategy::shard_gradients) {
          return;  // gathered before the next forward: the optimizer has not stepped here
        }
        EXPECT_EQ(mesh.traffic(), planned.step);
      });
}

TEST(Plan, OfUnitsOfOneAndOfTwoBlocksIsTheLedgers) {
  for (const int blocks : {1, 2}) {
    for (fsdp::ShardingStrategy strategy :
         {fsdp::ShardingStrategy::no_shard, fsdp::ShardingStrategy::shard_optimizer,
          fsdp::ShardingStrategy::shard_gradients, fsdp::ShardingStrategy::shard_grad_op,
          fsdp::ShardingStrategy::full_shard, fsdp::ShardingStrategy::hybrid_shard}) {
      for (const DType dtype : {DType::float32, DType::bfloat16}) {
        const bool hybrid = strategy == fsdp::ShardingStrategy::hybrid_shard;
        for (const int world : {3, hybrid ? 6 : 4}) {
          if (hybrid && world == 3) continue;
          SCOPED_TRACE(fsdp::name_of(strategy) + ", blocks " + std::to_string(blocks));
          expect_planned(blocks, {.strategy = strategy, .precision = {dtype, dtype}}, world,
                         hybrid ? 2 : world);
        }
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::plan
