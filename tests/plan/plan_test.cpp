#include "plan/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "gpt/gpt.h"
#include "plan/bare.h"
#include "plan/recipes.h"
#include "plan/transformer.h"
#include "support/closed_formula.h"
#include "support/tiny_training.h"

// The calculator's arithmetic: the papers' figures, the sizes of known models, and that what is
// planned from shapes is what the ledger measures.

namespace nanofsdp::plan {
namespace {

using fsdp::LayoutKind;
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

std::int64_t numel_of(nn::Module& model) {
  std::int64_t numel = 0;
  for (const nn::Parameter* p : model.named_parameters()) numel += p->shape.numel();
  return numel;
}

// What their publishers' checkpoints hold; MPT's is the table of MosaicML's README.
TEST(Models, HaveTheParametersThatTheyAreKnownFor) {
  const std::map<std::string_view, std::int64_t> known = {
      {"llama-2-7b", 6'738'415'616},   {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192}, {"llama-3-1b", 1'235'814'400},
      {"llama-3-3b", 3'212'749'824},   {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496}, {"llama-3-405b", 405'853'388'800},
      {"mpt-7b", 6'658'859'008}};
  for (const TransformerShape& shape : known_transformers()) {
    Transformer model(shape, {});
    if (!known.contains(shape.name)) continue;
    EXPECT_EQ(numel_of(model), known.at(shape.name)) << shape.name;
  }
}

TEST(Models, OfABareNumberAreUnitsAndARest) {
  Bare bare({5, 7}, 3);
  EXPECT_EQ(numel_of(bare), 15);
  const Plan planned =
      plan(bare, {.ranks = 2, .options = {.wrap_policy = is_bare_unit}, .work = {.rows = {1}}});
  ASSERT_EQ(planned.units.size(), 3u);
  EXPECT_EQ(planned.units[0].numel, 5);
  EXPECT_EQ(planned.units[1].padded, 8);
  EXPECT_EQ(planned.units[2].numel, 3);
}

// The engine on its simulated device, and the closed formulas: every class but activations, and
// what a step moves.
void expect_formula(const Plan& planned, nn::Module& model, const plan::Run& run) {
  const int F = run.shard_size > 0 ? run.shard_size : run.ranks;
  formula::UnitShapes shapes;
  for (const fsdp::WrappedModule& unit : fsdp::wrap(model, run.options.wrap_policy)) {
    shapes.push_back(fsdp::specs_of(unit.parameters));
  }
  const formula::Workload workload{.shard_size = F,
                                   .replicas = run.ranks / F,
                                   .micro_steps = std::ssize(run.work.rows),
                                   .device = run.device};
  const auto layouts = formula::lay_out(shapes, run.options, workload);
  const formula::Plan expected = formula::plan(layouts, run.options, workload);
  for (const MemoryClass c : kMemoryClasses) {
    if (c == MemoryClass::activations || c == MemoryClass::communication) continue;
    EXPECT_EQ(planned.of(c), expected.of(c)) << name_of(c);
  }
  EXPECT_EQ(planned.of(MemoryClass::communication),
            expected.of(MemoryClass::communication) + formula::norm_bytes(run.ranks));
  comm::Traffic step = planned.step;
  step.control = expected.step.control;  // the norm's
  EXPECT_EQ(step, expected.step);
  EXPECT_EQ(planned.bytes_across, expected.bytes_across);
}

TEST(Plan, IsTheClosedFormula) {
  gpt::GPT gpt(kTiny);
  Transformer llama(known_transformers()[0], {});
  for (const fsdp::Sharding& s : fsdp::kShardings) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      for (const Device device : {Device::simulated_cpu, Device::simulated_cuda}) {
        for (const bool no_sync : {false, true}) {
          for (const int ranks : {6, 4096 * 3}) {
            for (const LayoutKind layout : {LayoutKind::flat, LayoutKind::per_parameter}) {
              SCOPED_TRACE(fmt::format("{} on {} ranks, {}", s.name, ranks, name_of(dtype)));
              const plan::Run run{.ranks = ranks,
                                  .shard_size = s.replicates ? 2 : 0,
                                  .device = device,
                                  .options = {.strategy = s.strategy,
                                              .layout = layout,
                                              .precision = {dtype, dtype},
                                              .no_sync = no_sync,
                                              .wrap_policy = is_block},
                                  .work = {.rows = {1, 2}, .tokens = kTiny.block_size}};
              expect_formula(plan(gpt, run), gpt, run);
              if (device == Device::simulated_cuda) expect_formula(plan(llama, run), llama, run);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::plan
