#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "gpt/gpt.h"
#include "plan/rehearsal.h"
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

}  // namespace
}  // namespace nanofsdp::plan
