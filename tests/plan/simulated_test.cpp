#include <gtest/gtest.h>

#include <vector>

#include "comm/local.h"
#include "gpt/gpt.h"
#include "plan/rehearsal.h"
#include "support/observed.h"

// Simulated is real: what a rank holds, sends and issues is the same, whether there is memory and
// arithmetic or not. To the byte, rank by rank.

namespace nanofsdp::plan {
namespace {

using testing::Observed;

struct Case {
  std::string name;
  fsdp::Options options{};
  int ranks = 3;
  int shard_size = 0;
  std::vector<std::int64_t> rows{2};  // of each micro-step; rank r has r % 2 more
  bool recompute = false;
  float dropout = 0;
};

class Simulated : public ::testing::TestWithParam<Case> {};

Observed rehearse(const Case& c, Context& context, comm::Mesh& mesh) {
  gpt::GPT model({.block_size = 8,
                  .vocab_size = 37,
                  .n_layer = 4,
                  .n_head = 2,
                  .n_embd = 12,
                  .dropout = c.dropout,
                  .bias = true});
  for (const auto& block : model.blocks()) block->recompute = c.recompute;
  Work work{.rows = c.rows, .tokens = 8, .sums = 2};
  for (std::int64_t& rows : work.rows) rows += context.rank % 2;
  return testing::observe(context, mesh,
                          [&] { return Rehearsal(context, mesh, model, c.options, work); });
}

TEST_P(Simulated, IsReal) {
  Case c = GetParam();
  c.options.wrap_policy = fsdp::is_a<gpt::Block>;
  const std::vector<Observed> real =
      testing::on_threads(c.ranks, [&](Context& context, auto world) {
        comm::Mesh mesh(std::move(world), c.shard_size);
        return rehearse(c, context, mesh);
      });
  for (int rank = 0; rank < c.ranks; ++rank) {
    Context context(rank, c.ranks, 1, Device::simulated_cpu);
    comm::Mesh mesh = comm::make_simulated_mesh(context, {.shard_size = c.shard_size});
    const Observed simulated = rehearse(c, context, mesh);
    EXPECT_EQ(simulated, real[static_cast<std::size_t>(rank)]) << "rank " << rank;
    EXPECT_GT(simulated.bytes.at("activations in use, peak"), 0);
  }
}

using enum fsdp::ShardingStrategy;
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const fsdp::Sharding& s : fsdp::kShardings) {
    all.push_back({std::string(s.name), {.strategy = s.strategy}});
    all.push_back({std::string(s.name) + "_no_sync",
                   {.strategy = s.strategy, .no_sync = true},
                   4,
                   s.replicates ? 2 : 0,
                   {2, 1, 3}});
    all.push_back({std::string(s.name) + "_bf16",
                   {.strategy = s.strategy, .precision = {DType::bfloat16, DType::bfloat16}},
                   2,
                   s.replicates ? 2 : 0,
                   {2, 1, 3},
                   true,
                   0.1F});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Simulated, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nanofsdp::plan
