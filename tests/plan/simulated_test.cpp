#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/gloo.h"
#include "comm/local.h"
#include "fsdp/deferred_init.h"
#include "gpt/gpt.h"
#include "plan/rehearsal.h"
#include "support/layouts.h"
#include "support/observed.h"
#include "support/ranks.h"

// Simulated is real: a rank holds, sends and issues the same with and without memory and
// arithmetic, to the byte, on each rank.

namespace nanofsdp::plan {
namespace {

using testing::Configuration;
using testing::Observed;

gpt::GPT make_model(const Configuration& c) {
  return gpt::GPT({.block_size = 8,
                   .vocab_size = 197,  // makes the root the largest unit
                   .n_layer = 4,
                   .n_head = 2,
                   .n_embd = 12,
                   .dropout = c.dropout ? 0.1F : 0,
                   .bias = true});
}

// Freezes all biases, and one block. So units have two rows, or none that trains.
void freeze(nn::Module& model) {
  for (nn::Parameter* p : model.named_parameters()) {
    p->requires_grad = !p->name.ends_with(".bias") && p->name.find(".h.1.") == p->name.npos;
  }
}

using Look = std::function<void(Rehearsal&)>;

Observed rehearse(const Configuration& c, Context& context, comm::Mesh& mesh,
                  const Look& look = {}) {
  gpt::GPT model = make_model(c);
  for (const auto& block : model.blocks()) block->recompute = c.recompute;
  if (c.frozen) freeze(model);
  Work work{.rows = c.rows, .tokens = 8, .batch_rows = c.batch_rows, .sums = 2};
  for (std::int64_t& rows : work.rows) rows += context.rank % 2;
  Rehearsal training(context, mesh, model, c.options, work);
  if (look) look(training);
  return testing::observe(context, mesh, training);
}

auto rehearsal_of(const Configuration& c, const Look& look = {}) {
  return
      [&c, look](Context& context, comm::Mesh& mesh) { return rehearse(c, context, mesh, look); };
}

class Simulated : public ::testing::TestWithParam<Configuration> {};

TEST_P(Simulated, IsReal) {
  const Configuration& c = GetParam();
  const std::vector<Observed> real = testing::on_threads(c, rehearsal_of(c));
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Observed simulated = testing::simulated(c, rank, rehearsal_of(c));
    EXPECT_EQ(simulated, real[static_cast<std::size_t>(rank)]) << "rank " << rank;
    EXPECT_GT(simulated.bytes.at("activations in use, peak"), 0);
  }
}

// A GPU computes with bfloat16 parameters as they arrive, so its slots are half as large. It needs
// no memory to gather into before parameters are widened, except where they are copied anyway, or
// are sent in float8_e4m3. Its activations are bfloat16 too, but tokens and statistics are not. All
// else is as on a CPU of one thread.
TEST_P(Simulated, OnAGpuHoldsShortParametersAndActivations) {
  Configuration c = GetParam();
  c.threads = 1;
  const bool is_short = c.options.precision.param_dtype != DType::float32;
  const bool copies =
      (c.ranks > 1 && c.options.copies()) || c.options.precision.param_dtype == DType::float8_e4m3;
  for (const int rank : {0, c.ranks - 1}) {
    std::int64_t wire = 0;
    const auto look = [&](Rehearsal& training) {
      for (const fsdp::Unit& unit : training.model().units()) {
        for (const fsdp::ShardedParameters& row : unit.rows()) {
          wire = std::max(wire, 2 * row.layout().whole_numel());
        }
      }
    };
    Observed cpu = testing::simulated(c, rank, rehearsal_of(c, look));
    Observed gpu = testing::simulated(c, rank, rehearsal_of(c), Device::simulated_cuda);
    for (const char* when : {" reserved", " in use"}) {
      const std::string whole = std::string("unsharded parameters") + when;
      const std::string sent = std::string("communication") + when;
      EXPECT_EQ(cpu.bytes[whole], (is_short ? 2 : 1) * gpu.bytes[whole]) << "rank " << rank;
      EXPECT_EQ(cpu.bytes[sent] - gpu.bytes[sent], is_short && !copies ? wire : 0)
          << "rank " << rank;
    }
    const auto activations = [](Observed& seen) { return seen.bytes["activations in use, peak"]; };
    if (is_short) {
      // A block takes at least 1 MB.
      EXPECT_LE(activations(gpu), activations(cpu)) << "rank " << rank;
      for (Observed* seen : {&cpu, &gpu}) {
        std::erase_if(seen->bytes, [](const auto& count) {
          const std::string& of = count.first;
          return of.starts_with("unsharded parameters") || of.starts_with("communication") ||
                 of.starts_with("activations") || of.starts_with("total") || of == "allocations";
        });
      }
    }
    if (c.options.precision.param_dtype == DType::float8_e4m3 && c.post_forward_size > 0) {
      // Slices are sent in the dtype of computation.
      for (Observed* seen : {&cpu, &gpu}) {
        std::erase_if(seen->traffic,
                      [](const auto& count) { return count.first.starts_with("bytes"); });
      }
    }
    EXPECT_EQ(cpu, gpu) << "rank " << rank;
  }
}

// The numbers in a form that processes can send each other.
std::vector<std::int64_t> numbers(const Observed& seen) {
  std::vector<std::int64_t> all;
  for (const auto& [name, value] : seen.bytes) all.push_back(value);
  for (const auto& [name, value] : seen.traffic) all.push_back(value);
  std::string order;
  for (const std::string& event : seen.order) order += event + " ";
  all.push_back(static_cast<std::int64_t>(std::hash<std::string>()(order)));
  return all;
}

class SimulatedGloo : public ::testing::TestWithParam<Configuration> {};

// Over connections a rank also keeps memory for sums. Ranks that share memory do not.
TEST_P(SimulatedGloo, IsReal) {
  const Configuration& c = GetParam();
  for (const testing::Backend backend : testing::backends()) {
    if (backend == testing::Backend::local) continue;
    const auto real =
        testing::run_ranks(backend, c.ranks,
                           [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                             comm::Mesh mesh(std::move(world), c.shard_size, c.post_forward_size);
                             return numbers(rehearse(c, context, mesh));
                           },
                           {.threads = c.threads});
    const auto scratch = [&](int ranks, int, int, std::int64_t chunk) -> std::int64_t {
      return backend == testing::Backend::gloo ? comm::gloo_scratch_bytes(ranks, chunk) : 0;
    };
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Observed simulated =
          testing::simulated(c, rank, rehearsal_of(c), Device::simulated_cpu, scratch);
      EXPECT_EQ(numbers(simulated), real[static_cast<std::size_t>(rank)])
          << testing::name_of(backend) << ", rank " << rank << simulated;
    }
  }
}

bool is_mlp_or_block(const nn::Module& module) {
  return fsdp::is_a<gpt::Block>(module) || fsdp::is_a<gpt::MLP>(module);
}

// Blocks that are resharded, or reduced, in another way than the rest of the model; and the root.
fsdp::UnitOptions own_options(const nn::Module& module) {
  fsdp::UnitOptions unit = is_mlp_or_block(module) || fsdp::is_a<gpt::GPT>(module);
  if (fsdp::is_a<gpt::MLP>(module)) unit.reshard_after_forward = false;
  if (fsdp::is_a<gpt::GPT>(module)) unit.reshard_after_forward = true;
  if (fsdp::is_a<gpt::Block>(module)) unit.reshard_after_forward = true;
  return unit;
}

// The MLPs of all blocks are one unit.
fsdp::UnitOptions grouped(const nn::Module& module) {
  fsdp::UnitOptions unit = is_mlp_or_block(module);
  if (fsdp::is_a<gpt::MLP>(module)) unit.group = "mlps";
  return unit;
}

// 1 to 6 ranks with every strategy, and all pairs of settings.
std::vector<Configuration> of_gpt() {
  using C = Configuration;
  auto factors = testing::factors_of_any_model();
  factors.push_back({{"blocks", [](C& c) { c.options.wrap_policy = fsdp::is_a<gpt::Block>; }},
                     {"nested", [](C& c) { c.options.wrap_policy = is_mlp_or_block; }},
                     {"one_unit", [](C&) {}}});
  factors.push_back({{"plain", [](C&) {}}, {"dropout", [](C& c) { c.dropout = true; }}});
  factors.push_back({{"all", [](C&) {}}, {"frozen", [](C& c) { c.frozen = true; }}});
  return testing::configurations(factors);
}
const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(GPT, Simulated, ::testing::ValuesIn(of_gpt()), kName);

// Every strategy and layout, with options of units and with a group whose modules lie apart.
std::vector<Configuration> of_units() {
  std::vector<Configuration> all;
  for (const fsdp::Sharding& s : fsdp::kShardings) {
    for (const auto layout : {fsdp::LayoutKind::flat, fsdp::LayoutKind::per_parameter}) {
      Configuration c{.ranks = 4, .shard_size = s.replicates ? 2 : 0, .rows = {1, 2}};
      c.options = {.strategy = s.strategy, .layout = layout};
      const std::string name =
          std::string(s.name) + (layout == fsdp::LayoutKind::flat ? "" : "_pp");
      c.name = name + "_own_options", c.options.wrap_policy = own_options;
      all.push_back(c);
      c.name = name + "_grouped", c.options.wrap_policy = grouped;
      all.push_back(c);
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Units, Simulated, ::testing::ValuesIn(of_units()), kName);

// Processes take time, so these are two groups of two ranks, and every third configuration with few
// ranks.
std::vector<Configuration> of_few_ranks() {
  std::vector<Configuration> few;
  int seen = 0;
  for (const Configuration& c : of_gpt()) {
    const bool has_few = c.ranks == 2 || c.ranks == 3;
    if (c.name == "hybrid_shard2_W4" || (has_few && ++seen % 3 == 2)) few.push_back(c);
  }
  return few;
}
INSTANTIATE_TEST_SUITE_P(GPT, SimulatedGloo, ::testing::ValuesIn(of_few_ranks()), kName);

// Both ranks of IsReal rehearse a step. A training draws its first values. A rehearsal has no
// values, but takes the memory for the draw.
TEST(SimulatedRank, HoldsTheParameterThatIsDrawn) {
  const fsdp::Options options{.wrap_policy = fsdp::is_a<gpt::Block>};
  gpt::GPT model = make_model({}), same = make_model({});
  Context real;
  SimulatedRank simulated(0, 1, 1, Device::simulated_cpu);
  comm::Mesh mesh(comm::make_self()), no_mesh = make_simulated_mesh(simulated);
  fsdp::ShardedModel sharded(real, model, mesh, options);
  Generator generator(1337);
  fsdp::deferred_init(real, sharded.units(), generator);
  const Rehearsal rehearsal(simulated, no_mesh, same, options, {.rows = {1}, .tokens = 8});
  const auto peak = [](const Context& of) {
    return of.ledger.count(MemoryClass::activations).reserved_peak;
  };
  EXPECT_EQ(peak(simulated), peak(real) + 2 * 8 * 4) << "which has no memory for a batch";
  EXPECT_EQ(peak(real), 4 * 197 * 12);  // the table of token embeddings
}

// Bytes that the gather stream (1) and the reduce stream (2) of rank 0 of 3 read and write in a
// step.
std::array<double, 2> moved_beside_computation(const fsdp::Options& options) {
  gpt::GPT model = make_model({});
  SimulatedRank context(0, 3, 1, Device::simulated_cpu);
  comm::Mesh mesh = make_simulated_mesh(context);
  Rehearsal training(context, mesh, model, options, {.rows = {1}, .tokens = 8});
  training.step();
  const std::size_t first = context.issued.size();
  training.step();
  std::array<double, 2> bytes{};
  for (std::size_t i = first; i < context.issued.size(); ++i) {
    const Issued& work = context.issued[i];
    if (work.stream > 0) bytes[work.stream - 1] += work.cost.read + work.cost.written;
  }
  return bytes;
}

// The second layout copies each parameter after a gather, and each gradient before a reduction. It
// reads and writes every element once, without padding. Then the reduced shard is copied to its
// place, in both layouts, with padding.
TEST(SimulatedRank, CopiesEachElementOnceForACollectiveOfTheSecondLayout) {
  gpt::GPT model = make_model({});
  for (const fsdp::LayoutKind layout : testing::kLayouts) {
    double numel = 0, shards = 0, root = 0;
    for (const fsdp::WrappedModule& unit : fsdp::wrap(model, fsdp::is_a<gpt::Block>)) {
      const fsdp::Layout of_unit(fsdp::specs_of(unit.parameters), 3, 4, layout);
      root = static_cast<double>(of_unit.total_numel());  // the root comes last
      numel += root;
      shards += static_cast<double>(of_unit.shard_numel());
    }
    const bool copies = layout == fsdp::LayoutKind::per_parameter;
    for (const auto& [strategy, gathered] :
         {std::pair(fsdp::ShardingStrategy::shard_grad_op, numel),
          std::pair(fsdp::ShardingStrategy::full_shard, 2 * numel - root)}) {
      const auto [by_gathers, by_reductions] = moved_beside_computation(
          {.strategy = strategy, .layout = layout, .wrap_policy = fsdp::is_a<gpt::Block>});
      EXPECT_EQ(by_gathers, copies ? 8 * gathered : 0) << fsdp::name_of(strategy);
      EXPECT_EQ(by_reductions, 8 * ((copies ? numel : 0) + shards)) << fsdp::name_of(strategy);
    }
  }
}

}  // namespace
}  // namespace nanofsdp::plan
