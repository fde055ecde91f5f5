#include "train/model_file.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "gpt/gpt.h"
#include "store/weights.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::train {
namespace {

RunState some_state() {
  Generator generator(7);
  std::vector<float> some(3);
  generator.normal(some, 0, 1);  // leaves one number in the cache
  return {.iteration = 250,
          .best_val_loss = 1.0 / 3,
          .generator = generator.state(),
          .alphabet = "\n\"\\\u00e9",
          .vocab_size = 4,
          .pieces = {"\u0120a", "\""},
          .options = {{"n_layer", "3"}, {"wandb_run_name", "a=b\n\xff"}}};
}

TEST(RunState, ComesBackFromMetadata) {
  const RunState state = some_state(), back = run_state_of(metadata_of(state), "o");
  EXPECT_EQ(back.iteration, state.iteration);
  EXPECT_EQ(back.generator, state.generator);
  EXPECT_EQ(back.alphabet, state.alphabet);
  EXPECT_EQ(back.vocab_size, state.vocab_size);
  EXPECT_EQ(back.pieces, state.pieces);
  EXPECT_EQ(back.options.at("n_layer"), "3");
}

// The best loss is infinite before the first evaluation, so every loss is better.
TEST(RunState, TellsTheBestLossToTheBit) {
  using Limits = std::numeric_limits<double>;
  RunState state = some_state();
  for (const double best : {Limits::infinity(), Limits::max(), 4.2, 1.0 / 3, Limits::min(),
                            Limits::denorm_min(), 0.0}) {
    state.best_val_loss = best;
    EXPECT_EQ(run_state_of(metadata_of(state), "o").best_val_loss, best);
  }
}

// The checkpoint is another program's, or a hostile one. The error says which text is wrong.
TEST(RunState, TrustsNoMetadata) {
  const auto error_with = [](const std::string& name, const std::string& text) {
    store::Metadata metadata = metadata_of(some_state());
    metadata.at(name) = text;
    return testing::usage_error([&] { run_state_of(metadata, "o"); });
  };
  EXPECT_EQ(testing::usage_error([] { run_state_of(metadata_of(some_state()), "o"); }), "no error");
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"iteration", "-1"},
           {"iteration", "\"x\""},
           {"iteration", ""},
           {"vocab_size", "1"},
           {"vocab_size", "1000001"},
           {"pieces", deep},
           {"pieces", "[1]"},
           {"options", "[]"},
           {"generator", "{}"},
           {"generator", "{\"words\": [1], \"position\": 0}"}}) {
    const std::string error = error_with(name, text);
    EXPECT_NE(error.find("checkpoint 'o/checkpoint'"), std::string::npos) << name << ": " << error;
    EXPECT_NE(error.find("saved by `nanofsdp train`"), std::string::npos) << name;
  }
  EXPECT_NE(testing::usage_error([] { run_state_of({}, "o"); }), "no error");
}

// A file may contain any description. It is believed if the tensors are those of its model.
TEST(WeightsInfo, IsOfItsTensors) {
  const gpt::GPTConfig small{
      .block_size = 2, .vocab_size = 3, .n_layer = 2, .n_head = 1, .n_embd = 4};
  const WeightsInfo right{.config = small, .chars = "abc", .iteration = 1, .val_loss = 1.5};
  gpt::GPT model(small);
  std::vector<store::TensorInfo> tensors;
  for (const nn::Parameter* parameter : model.named_parameters()) {
    tensors.push_back(store::info_of(*parameter));
  }
  const testing::TemporaryDirectory directory;
  const auto told = [&](const WeightsInfo& info) {
    store::SafetensorsWriter writer(store::weights_path(directory.file("")).string(), tensors,
                                    metadata_of(info));
    for (const store::TensorInfo& tensor : tensors) {
      writer.append(std::vector<float>(static_cast<std::size_t>(tensor.numel())));
    }
    writer.finish();
    return testing::usage_error([&] { read_weights_info(directory.file("")); });
  };
  EXPECT_EQ(told(right), "no error");
  WeightsInfo positions = right, vocabulary = right, layers = right, width = right;
  positions.config.block_size = 3;
  vocabulary.config.vocab_size = 4;
  vocabulary.chars = "abcd";
  layers.config.n_layer = 3;
  width.config.n_embd = 5;
  for (const WeightsInfo& wrong : {positions, vocabulary, layers, width}) {
    EXPECT_TRUE(testing::one_line_with(told(wrong), {"other tensors than of its description"}));
  }
  WeightsInfo fewer = right, plain = right;  // no layer would compute with the rest
  fewer.config.n_layer = 1;
  plain.config.bias = false;
  for (const WeightsInfo& wrong : {fewer, plain}) {
    EXPECT_TRUE(testing::one_line_with(told(wrong), {"other tensors than of its description"}));
  }
}

}  // namespace
}  // namespace nanofsdp::train
