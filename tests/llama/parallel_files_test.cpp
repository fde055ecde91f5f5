#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "26_two_dimensions/model.h"
#include "fsdp/fully_shard.h"
#include "store/weights.h"
#include "store/weights_files.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

// Files of lesson 26's GPT, whose blocks a tensor group divides by rows, by columns, and by rows of
// three matrices: they hold the weights of the GPT of one rank.

namespace nanofsdp::parallel_files_test {
namespace {

constexpr gpt::GPTConfig kConfig{.block_size = 5,
                                 .vocab_size = 11,
                                 .n_layer = 2,
                                 .n_head = 4,
                                 .n_embd = 8,
                                 .dropout = 0,
                                 .bias = false};

template <class Body>
void on_grid(int ranks, int tensor, const Body& body) {
  testing::run_ranks(testing::Backend::local, ranks, [&](Context& context, auto world) {
    comm::Mesh mesh(std::move(world), 0, 0, tensor);
    lesson::ParallelGPT model(mesh.tensor(), kConfig);
    Generator generator(7);
    const auto memory = lesson::give_part(model, kConfig, generator);
    fsdp::ShardedModel sharded(context, model, mesh,
                               {.wrap_policy = fsdp::is_a<lesson::ParallelBlock>});
    body(sharded, model, memory);
  });
}

std::vector<float> whole_of(gpt::GPT& model) {
  std::vector<float> all;
  const std::vector<nn::Parameter*> parameters = model.named_parameters();
  std::vector<std::vector<float>> memory(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    memory[i].resize(static_cast<std::size_t>(parameters[i]->shape.numel()));
    parameters[i]->data = Tensor(memory[i].data(), parameters[i]->shape);
  }
  Generator generator(7);
  for (const auto& [p, init] : model.nanogpt_draws())
    nn::draw(generator, init, p->data.span<float>());
  for (const std::vector<float>& values : memory)
    all.insert(all.end(), values.begin(), values.end());
  return all;
}

TEST(ParallelFiles, HoldTheWeightsOfOneRank) {
  gpt::GPT one(kConfig);
  const std::vector<float> expected = whole_of(one);
  for (const auto& [ranks, tensor] : {std::pair(4, 1), std::pair(4, 2), std::pair(4, 4)}) {
    const testing::TemporaryDirectory directory;
    std::vector<std::string> names(one.named_parameters().size());
    on_grid(ranks, tensor, [&](fsdp::ShardedModel& sharded, nn::Module& model, const auto&) {
      store::save_weights(directory.file(""), sharded, {}, sharded.mesh().rank());
      if (sharded.context().rank > 0) return;
      std::ranges::transform(model.named_parameters(), names.begin(),
                             [](const nn::Parameter* p) { return p->name; });
    });
    const store::WeightsFiles files(directory.file(""));
    std::vector<float> saved;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto dims = one.named_parameters()[i]->shape.dims();
      const std::vector<float> values = files.read({names[i], {dims.begin(), dims.end()}});
      saved.insert(saved.end(), values.begin(), values.end());
    }
    EXPECT_EQ(saved, expected) << tensor;
    for (const int other : {1, 2, 4}) {
      on_grid(4, other, [&](fsdp::ShardedModel& sharded, nn::Module&, const auto& parts) {
        std::vector<std::vector<float>> mine;
        for (fsdp::ShardedParameters* row : sharded.rows()) {
          for (std::size_t i = 0; i < row->parameters().size(); ++i)
            row->store(i, std::vector<float>(row->parameters()[i]->shape.numel(), -1));
        }
        store::load_weights(directory.file(""), sharded);
        sharded.summon_full_parameters([&](const nn::Parameter& p) {
          const auto values = p.data.span<float>();
          mine.emplace_back(values.begin(), values.end());
        });
        auto all = parts;
        std::ranges::sort(all), std::ranges::sort(mine);  // units come in another order
        EXPECT_EQ(mine, all) << tensor << " to " << other;
      });
    }
  }
}

}  // namespace
}  // namespace nanofsdp::parallel_files_test
