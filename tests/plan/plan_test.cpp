#include "plan/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "gpt/gpt.h"
#include "plan/simulated.h"
#include "plan/transformer.h"
#include "support/closed_formula.h"
#include "support/layouts.h"
#include "support/tiny_training.h"

// Tests the planner's numbers: the sizes of known models, and that a plan from shapes equals the
// ledger's measurements.

namespace nanofsdp::plan {
namespace {

using fsdp::LayoutKind;
using testing::kTiny;

std::int64_t numel_of(nn::Module& model) {
  std::int64_t numel = 0;
  for (const nn::Parameter* p : model.named_parameters()) numel += p->shape.numel();
  return numel;
}

// The numbers are those of the publishers' checkpoints; MPT's are from a table in MosaicML's
// README.
TEST(Models, HaveTheParametersThatTheyAreKnownFor) {
  const std::map<std::string_view, std::int64_t> known = {
      {"llama-2-7b", 6'738'415'616},   {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192}, {"llama-3-1b", 1'235'814'400},
      {"llama-3-3b", 3'212'749'824},   {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496}, {"llama-3-405b", 405'853'388'800},
      {"mpt-7b", 6'658'859'008},       {"gpt2", 124'439'808},
      {"gpt2-xl", 1'557'611'200}};
  for (const TransformerShape& shape : transformers()) {
    Outline model(transformer(shape, {}));
    if (!known.contains(shape.name)) continue;
    EXPECT_EQ(numel_of(model), known.at(shape.name)) << shape.name;
  }
}

TEST(Outline, OfALayerWithoutAnOutputReturnsItsInput) {
  for (const std::int64_t width : {0, 5}) {
    SimulatedRank context(0, 1, 1, Device::simulated_cpu);
    nn::Tape tape(context);
    Outline layer({.width = width});
    tape.begin(/*training=*/false);
    const Tensor x = tape.allocate({1, 2, 3});
    EXPECT_EQ(layer.forward(tape, x).shape(), Shape({1, 2, width == 0 ? 3 : width}));
  }
}

// The numbers are MosaicML's: its models learn a position for each token of a row.
TEST(Models, OfMosaicMLHaveAsManyPositionsAsARowHasTokens) {
  for (const auto& [tokens, numel] : {std::pair(512, 1'312'804'864),
                                      {2048, 1'315'950'592},
                                      {16'384, 1'345'310'720},
                                      {65'536, 1'445'974'016}}) {
    TransformerShape shape = *find_transformer("mpt-1b");
    shape.block_size = tokens;
    Outline model(transformer(shape, {}));
    EXPECT_EQ(numel_of(model), numel) << tokens;
  }
}

TEST(Models, RecomputeOneBlockOfSoMany) {
  for (const auto& [every, blocks] :
       {std::pair(1.0, 80), {1.5, 53}, {2.0, 40}, {3.0, 26}, {1.25, 64}, {80.0, 1}, {81.0, 0}}) {
    const Practice how{.recompute = Recompute::block, .every = every};
    const Layer model = transformer(*find_transformer("llama-2-70b"), how);
    const auto again = [](const Layer& layer) { return layer.is_unit && layer.kept == 0; };
    EXPECT_EQ(std::ranges::count_if(model.behind, again), blocks) << every;
  }
}

TEST(Models, OfABareNumberAreUnitsAndARest) {
  Outline bare(
      {.parameters = {{3}},
       .width = 1,
       .behind = {{.is_unit = true, .parameters = {{5}}}, {.is_unit = true, .parameters = {{7}}}}});
  EXPECT_EQ(numel_of(bare), 15);
  for (nn::Parameter* const frozen : bare.named_parameters()) {
    const Plan planned = plan(
        bare,
        {.ranks = 2, .options = {.alignment = 1, .wrap_policy = is_block}, .work = {.rows = {1}}});
    EXPECT_EQ(planned.units, (std::vector<std::int64_t>{5, 7, 3}));
    EXPECT_EQ(planned.shard, 3 + 4 + 2);
    frozen->requires_grad = false;  // a frozen parameter is sharded, too
  }
}

// Unless the run says for how many rows it has memory, these are the most of any micro-step.
TEST(Models, HaveMemoryForTheTokensOfTheLongestMicroStep) {
  const auto bytes = [](std::int64_t batch_rows) {
    Outline model({.parameters = {{3}}, .width = 1});
    const plan::Run run{.work = {.rows = {1, 40, 2}, .tokens = 64, .batch_rows = batch_rows}};
    return plan(model, run).of(MemoryClass::activations);
  };
  EXPECT_EQ(bytes(0), bytes(40));
  EXPECT_GT(bytes(80), bytes(40));
}

// Compares the engine on its simulated device with the closed formulas: the bytes of every class
// except activations, and the traffic of a step.
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
  step.control = expected.step.control;  // the operations for the norm
  EXPECT_EQ(step, expected.step);
  EXPECT_EQ(planned.bytes_across, expected.bytes_across);
}

TEST(Plan, IsTheClosedFormula) {
  gpt::GPT gpt(kTiny);
  Outline llama(transformer(transformers()[0], {}));
  for (const fsdp::Sharding& s : fsdp::kShardings) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      for (const Device device : {Device::simulated_cpu, Device::simulated_cuda}) {
        for (const bool no_sync : {false, true}) {
          for (const int ranks : {6, 4096 * 3}) {
            for (const LayoutKind layout : testing::kLayouts) {
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

// The work of a rank, in numbers that do not depend on a clock.
struct Done {
  std::size_t issued = 0;
  std::int64_t allocations = 0;
};

Done done(nn::Module& model, const plan::Run& run) {
  SimulatedRank rank(0, run.ranks, 1, run.device);
  comm::Mesh mesh = make_simulated_mesh(rank, run.shard_size);
  Rehearsal rehearsal(rank, mesh, model, run.options, run.work);
  rehearsal.step();
  rehearsal.step();
  return {rank.issued.size(), rank.ledger.allocations()};
}

// With more ranks a shard has pieces of fewer parameters, so the work may also be less. Between
// rows a shard may have pieces of other parameters: each costs an update and a norm in each of two
// steps.
TEST(Plan, DoesNoMoreForMoreRanks) {
  gpt::GPT gpt(kTiny);
  Outline llama(transformer(transformers()[0], {}));
  for (const fsdp::Sharding& s : fsdp::kShardings) {
    for (const LayoutKind layout : testing::kLayouts) {
      for (nn::Module* model : std::initializer_list<nn::Module*>{&gpt, &llama}) {
        plan::Run run{
            .ranks = 64,
            .shard_size = s.replicates ? 8 : 0,
            .device = Device::simulated_cuda,
            .options = {.strategy = s.strategy, .layout = layout, .wrap_policy = is_block},
            .work = {.rows = {1, 1}, .tokens = kTiny.block_size}};
        const Done few = done(*model, run);
        run.ranks = 4096;
        const Done many = done(*model, run);
        EXPECT_GT(few.issued, 100u);
        const std::size_t others =
            layout == LayoutKind::row_aligned ? 4 * model->named_parameters().size() : 0;
        EXPECT_LE(many.issued, few.issued + others) << s.name;
        EXPECT_EQ(many.allocations, few.allocations) << s.name;
        if (!s.optimizer) {
          EXPECT_EQ(many.issued, few.issued) << s.name;
        }
      }
    }
  }
}

// Units have these names in traces, too.
TEST(Outline, NamesItsLayersFromZero) {
  TransformerShape shape = *find_transformer("llama-3-8b");
  shape.n_layer = 3;
  Outline model(transformer(shape, {}));
  std::vector<std::string> names;
  for (const fsdp::WrappedModule& unit : fsdp::wrap(model, is_block)) names.push_back(unit.name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0", "layers.1", "layers.2", "root"}));
}

}  // namespace
}  // namespace nanofsdp::plan
