#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "22_your_own_model/lora.h"
#include "plan/rehearsal.h"
#include "support/observed.h"

// A model that the library does not know can be planned too: its own loops are work for the stream.
// On the simulated device, a rank of it holds, sends and issues the same as a real one.

namespace llama {
namespace {

using nanofsdp::testing::Configuration;
using nanofsdp::testing::Observed;

constexpr Config kShape{.vocab_size = 11,
                        .hidden_size = 16,
                        .intermediate_size = 24,
                        .num_hidden_layers = 3,
                        .num_attention_heads = 4,
                        .num_key_value_heads = 2};

// If `frozen` is true, the base is frozen and adapters train.
std::unique_ptr<Llama> make_model(const Configuration& c) {
  auto model = std::make_unique<Llama>(kShape, c.frozen ? with_adapters(4, 8) : linear);
  if (c.frozen) freeze_base(*model);
  for (Block& layer : model->layers) layer.recompute = c.recompute;
  return model;
}

auto rehearsal_of(const Configuration& c) {
  return [&c](Context& context, comm::Mesh& mesh) {
    const auto model = make_model(c);
    plan::Work work{.rows = c.rows, .tokens = 8, .batch_rows = c.batch_rows, .sums = 2};
    for (std::int64_t& rows : work.rows) rows += context.rank % 2;
    plan::Rehearsal training(context, mesh, *model, c.options, work);
    return nanofsdp::testing::observe(context, mesh, training);
  };
}

class Simulated : public ::testing::TestWithParam<Configuration> {};

TEST_P(Simulated, IsReal) {
  const Configuration& c = GetParam();
  const std::vector<Observed> real = nanofsdp::testing::on_threads(c, rehearsal_of(c));
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Observed simulated = nanofsdp::testing::simulated(c, rank, rehearsal_of(c));
    EXPECT_EQ(simulated, real[static_cast<std::size_t>(rank)]) << "rank " << rank;
    EXPECT_GT(simulated.bytes.at("activations in use, peak"), 0);
  }
}

// 1 to 6 ranks with every strategy, and all pairs of settings.
std::vector<Configuration> of_llama() {
  using C = Configuration;
  auto factors = nanofsdp::testing::factors_of_any_model();
  factors.push_back({{"layers", [](C& c) { c.options.wrap_policy = fsdp::is_a<Block>; }},
                     {"one_unit", [](C&) {}}});
  factors.push_back({{"plain", [](C&) {}}, {"lora", [](C& c) { c.frozen = true; }}});
  return nanofsdp::testing::configurations(factors);
}
INSTANTIATE_TEST_SUITE_P(Llama, Simulated, ::testing::ValuesIn(of_llama()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace llama
