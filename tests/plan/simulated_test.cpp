#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/gloo.h"
#include "comm/self.h"
#include "fsdp/deferred_init.h"
#include "gpt/gpt.h"
#include "plan/plan.h"
#include "support/observed.h"
#include "support/ranks.h"

// Simulated is real: what a rank holds, sends and issues is the same, whether there is memory and
// arithmetic or not. To the byte, rank by rank.

namespace nanofsdp::plan {
namespace {

using testing::Configuration;
using testing::Observed;

gpt::GPT make_model(const Configuration& c) {
  return gpt::GPT({.block_size = 8,
                   .vocab_size = 37,
                   .n_layer = 4,
                   .n_head = 2,
                   .n_embd = 12,
                   .dropout = c.dropout ? 0.1F : 0,
                   .bias = true});
}

// All biases, and one block: units have two rows, or none that trains.
void freeze(nn::Module& model) {
  for (nn::Parameter* p : model.named_parameters()) {
    p->requires_grad = !p->name.ends_with(".bias") && p->name.find(".h.1.") == p->name.npos;
  }
}

Observed rehearse(const Configuration& c, Context& context, comm::Mesh& mesh) {
  gpt::GPT model = make_model(c);
  for (const auto& block : model.blocks()) block->recompute = c.recompute;
  if (c.frozen) freeze(model);
  Work work{.rows = c.rows, .tokens = 8, .batch_rows = c.batch_rows, .sums = 2};
  for (std::int64_t& rows : work.rows) rows += context.rank % 2;
  return testing::observe(context, mesh,
                          [&] { return Rehearsal(context, mesh, model, c.options, work); });
}

auto rehearsal_of(const Configuration& c) {
  return [&c](Context& context, comm::Mesh& mesh) { return rehearse(c, context, mesh); };
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

bool is_mlp_or_block(const nn::Module& module) {
  return fsdp::is_a<gpt::Block>(module) || fsdp::is_a<gpt::MLP>(module);
}

// 1 to 6 ranks under every strategy, and every two settings together.
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
INSTANTIATE_TEST_SUITE_P(GPT, Simulated, ::testing::ValuesIn(of_gpt()),
                         [](const auto& info) { return info.param.name; });

const std::string kCommunication(name_of(MemoryClass::communication));

// In the order of their names.
std::vector<std::int64_t> of_communication(const Observed& seen) {
  std::vector<std::int64_t> bytes;
  for (const auto& [name, count] : seen.bytes) {
    if (name.starts_with(kCommunication)) bytes.push_back(count);
  }
  return bytes;
}

// What peers send for a sum lies in memory of Gloo's, which grows with the largest chunk.
TEST(SimulatedRank, HasTheScratchOfGloo) {
  using enum fsdp::ShardingStrategy;
  for (const testing::Backend backend : testing::backends()) {
    if (backend != testing::Backend::gloo) continue;
    for (Configuration c : {Configuration{.options = {.strategy = full_shard}},
                            Configuration{.options = {.strategy = no_shard}, .rows = {1, 2}},
                            Configuration{.options = {.strategy = shard_grad_op,
                                                     .precision = {DType::float32, DType::bfloat16},
                                                     .wrap_policy = fsdp::is_a<gpt::Block>}}}) {
      for (const int W : {2, 3}) {
        c.ranks = W;
        const auto real = testing::run_ranks(
            backend, W, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
              comm::Mesh mesh(std::move(world));
              return of_communication(rehearse(c, context, mesh));
            });
        for (int rank = 0; rank < W; ++rank) {
          const Observed simulated =
              testing::simulated(c, rank, rehearsal_of(c), Device::simulated_cpu,
                                 {.scratch = comm::gloo_scratch_bytes});
          EXPECT_EQ(of_communication(simulated), real[static_cast<std::size_t>(rank)])
              << "rank " << rank << " of " << W;
        }
      }
    }
  }
}

// A GPU is asked for the same, but in other numbers: shards, traffic and order do not depend on it.
TEST_P(Simulated, IsTheSameOnAGpuButForUnitsThatAreWhole) {
  const Configuration& c = GetParam();
  const Observed cpu = testing::simulated(c, 0, rehearsal_of(c));
  const Observed gpu = testing::simulated(c, 0, rehearsal_of(c), Device::simulated_cuda);
  EXPECT_EQ(gpu.traffic, cpu.traffic);
  EXPECT_EQ(gpu.order, cpu.order);
  for (const MemoryClass kind : {MemoryClass::parameter_shards, MemoryClass::gradient_shards,
                                 MemoryClass::optimizer, MemoryClass::unsharded_gradients}) {
    const std::string name = std::string(name_of(kind)) + " reserved";
    EXPECT_EQ(gpu.bytes.at(name), cpu.bytes.at(name)) << name;
  }
}

// A CPU gathers bfloat16 on a wire, and widens it; a GPU computes with what it has gathered.
TEST(SimulatedRank, HasBfloat16SlotsOnAGpuAndNoGatherWire) {
  gpt::GPT model = make_model({});
  plan::Run run{.ranks = 4,
                .options = {.precision = {DType::bfloat16, DType::float32},
                            .wrap_policy = fsdp::is_a<gpt::Block>},
                .work = {.rows = {1}, .tokens = 8}};
  const Plan cpu = plan(model, run);
  run.device = Device::simulated_cuda;
  const Plan gpu = plan(model, run);
  const auto whole = MemoryClass::unsharded_parameters, wire = MemoryClass::communication;
  EXPECT_EQ(2 * gpu.of(whole), cpu.of(whole));
  const auto largest = std::ranges::max(cpu.units, {}, &UnitSize::padded).padded;
  EXPECT_EQ(cpu.of(wire) - gpu.of(wire), 2 * largest);
}

// Both ranks of IsReal rehearse. The first values of a training are drawn; a rehearsal has none,
// but takes the memory for it.
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
    return of.ledger.count(MemoryClass::unsharded_parameters).reserved_peak;
  };
  EXPECT_EQ(peak(simulated), peak(real));
  EXPECT_GT(peak(real), real.ledger.count(MemoryClass::unsharded_parameters).reserved);
}

}  // namespace
}  // namespace nanofsdp::plan
