#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "gpt/gpt.h"
#include "parity/golden.h"
#include "support/ranks.h"

// The weights of a seed are PyTorch's to the bit, at every number of ranks. So are the batches that
// come after them from the same stream.

namespace nanofsdp {
namespace {

struct Model {
  gpt::GPTConfig config;
  std::string order, hash;
};

// Reads lines `layers heads width context vocabulary bias order = hash`.
std::vector<Model> models() {
  std::vector<Model> all;
  std::istringstream lines(testing::golden("init.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string equals;
    Model m{.config = {.dropout = 0}};
    gpt::GPTConfig& c = m.config;
    words >> c.n_layer >> c.n_head >> c.n_embd >> c.block_size >> c.vocab_size >> c.bias;
    if (words >> m.order >> equals >> m.hash) all.push_back(m);
  }
  return all;
}

// The hash of all parameters in the order of named_parameters(), gathered from the ranks' shards.
std::string hash_at(int ranks, const Model& wanted) {
  std::string found;
  testing::run_ranks(
      ranks == 1 ? testing::Backend::self : testing::Backend::local, ranks,
      [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        comm::Mesh mesh(std::move(world));
        gpt::GPT model(wanted.config);
        fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = fsdp::is_a<gpt::Block>});
        Generator generator(1337);
        fsdp::deferred_init(context, sharded.units(),
                            wanted.order == "nanogpt" ? model.nanogpt_draws()
                                                      : fsdp::breadth_first_draws(sharded.units()),
                            generator);
        std::map<const nn::Parameter*, std::vector<float>> values;
        sharded.summon_full_parameters([&](const nn::Parameter& parameter) {
          const std::span<float> data = parameter.data.span<float>();
          values[&parameter].assign(data.begin(), data.end());
        });
        testing::Sha256 hash;
        for (const nn::Parameter* parameter : model.named_parameters()) {
          hash.update(std::span<const float>(values.at(parameter)));
        }
        if (context.rank == 0) found = hash.hex();
      });
  return found;
}

// This takes some seconds: eight models, on one rank and where shards are padded.
TEST(InitParity, EveryWorldStartsFromPyTorchsWeights) {
  ASSERT_EQ(models().size(), 8u);
  for (const Model& model : models()) {
    for (const int ranks : {1, 3}) {
      EXPECT_EQ(hash_at(ranks, model), model.hash)
          << model.config.n_layer << " layers, order " << model.order << ", " << ranks << " ranks";
    }
  }
}

// The generator after it has drawn the weights of the recipe's model.
Generator after_the_weights() {
  Generator generator(1337);
  gpt::GPT model({.block_size = 64,
                  .vocab_size = 65,
                  .n_layer = 4,
                  .n_head = 4,
                  .n_embd = 128,
                  .bias = false});
  for (const nn::Draw& draw : model.nanogpt_draws()) {
    nn::skip(generator, draw.init, draw.parameter->shape.numel());
  }
  return generator;
}

// Only the number of tokens of tiny Shakespeare matters to the places where batches begin.
TEST(InitParity, TheFirstBatchesArePyTorchs) {
  std::istringstream lines(testing::golden("batches.txt"));
  std::string word, hash;
  std::uint64_t tokens = 0;
  lines >> word >> tokens >> hash;
  Generator generator = after_the_weights();
  int batches = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> word;
    if (word != "starts") continue;
    ++batches;
    for (std::int64_t start = 0; words >> start;) {
      EXPECT_EQ(generator.randint(tokens - 64), start) << "batch " << batches;
    }
  }
  EXPECT_EQ(batches, 3);
}

// With the text, the test also compares the rows. A rank asks for four of twelve rows.
TEST(InitParity, TheFirstRowsArePyTorchs) {
  if (std::getenv("NANOFSDP_SHAKESPEARE") == nullptr) {
    GTEST_SKIP() << "NANOFSDP_SHAKESPEARE does not name tiny Shakespeare";
  }
  const data::Dataset dataset = data::load_dataset({.dataset = "shakespeare_char"});
  Generator generator = after_the_weights();
  std::istringstream lines(testing::golden("batches.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("first_row ")) continue;
    std::vector<std::int32_t> x(4 * 64), y(4 * 64);
    dataset.draw(data::Split::train, generator, 12, {.first = 0, .count = 4}, {x, y});
    std::istringstream words(line.substr(10));
    for (std::size_t t = 0; t < 64; ++t) {
      std::int32_t token = -1;
      words >> token;
      EXPECT_EQ(x[t], token);
      if (t > 0) {
        EXPECT_EQ(y[t - 1], token);
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp
