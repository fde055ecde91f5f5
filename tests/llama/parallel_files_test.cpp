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

TEST(ParallelFiles, HoldTheWeightsOfOneRank) {
  // On one rank the parts are the whole.
  std::vector<store::TensorInfo> wholes;
  std::vector<std::vector<float>> expected;
  on_grid(1, 1, [&](fsdp::ShardedModel&, nn::Module& model, const auto& parts) {
    for (const nn::Parameter* p : model.named_parameters()) wholes.push_back(store::info_of(*p));
    expected = parts;
  });
  for (const int tensor : {1, 2, 4}) {
    const testing::TemporaryDirectory directory;
    on_grid(4, tensor, [&](fsdp::ShardedModel& sharded, nn::Module&, const auto&) {
      store::save_weights(directory.file(""), sharded, {});
    });
    const store::WeightsFiles files(directory.file(""));
    for (std::size_t i = 0; i < wholes.size(); ++i)
      EXPECT_EQ(files.read(wholes[i]), expected[i]) << wholes[i].name << " " << tensor;
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
