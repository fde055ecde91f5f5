#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests the uses of nanoGPT's sample.py and of its finetuning: files in, texts out.

namespace nanofsdp::sample_test {
namespace {

namespace fs = std::filesystem;
using testing::output_of;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

const std::string kSmall = NANOFSDP_SOURCE_DIR "/tests/parity/gpt2";

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string sample(const TemporaryDirectory& directory, Words more, int exit_code = 0) {
  more.insert(more.begin(), "sample");
  return output_of(directory, more, exit_code);
}

// Copies the small GPT-2, and texts of its tokens as prepare.py would write them.
void prepare(const TemporaryDirectory& directory) {
  fs::create_directories(directory.file("data/owls"));
  fs::copy(kSmall, directory.file("data/gpt2"));
  std::string tokens;
  // Tokens 259 to 265.
  for (int i = 0; i < 400; ++i) tokens += {static_cast<char>(3 + i % 7), '\1'};
  for (std::size_t i = 0; i < tokens.size(); i += 2) {
    if (tokens[i] > 7) tokens[i] = 3;  // 263 is the last token
  }
  directory.write("data/owls/train.bin", tokens);
  directory.write("data/owls/val.bin", tokens.substr(0, 100));
}

const Words kTraining = {"train",          "--max_iters=3",  "--eval_interval=3", "--eval_iters=1",
                         "--block_size=8", "--batch_size=4", "--n_layer=2",       "--n_head=2",
                         "--n_embd=16",    "--out_dir=out"};

TEST(Sample, IsTheSameOnAnyNumberOfRanks) {
  const TemporaryDirectory directory;
  output_of(directory, kTraining);
  const Words options = {"--out_dir=out", "--num_samples=2", "--max_new_tokens=30", "--start=The "};
  const std::string one = sample(directory, options);
  EXPECT_EQ(one.substr(0, 4), "The ");
  std::istringstream lines(one);
  int ends = 0;
  for (std::string line; std::getline(lines, line);) ends += line == "---------------";
  EXPECT_EQ(ends, 2);
  for (const Words& ranks : {Words{"--ranks=2"}, {"--ranks=3"}, {"--ranks=2", "--backend=local"}}) {
    Words more = options;
    more.insert(more.end(), ranks.begin(), ranks.end());
    EXPECT_EQ(sample(directory, more), one);
  }
}

TEST(Sample, ReadsItsPromptFromAFile) {
  const TemporaryDirectory directory;
  output_of(directory, kTraining);
  directory.write("prompt.txt", "The owl\r\nsaid");
  directory.write("empty.txt", "");
  const Words options = {"--out_dir=out", "--max_new_tokens=5", "--start=FILE:prompt.txt"};
  EXPECT_EQ(sample(directory, options).substr(0, 12), "The owl\nsaid");
  const auto error = [&](const std::string& start) {
    return sample(directory, {"--out_dir=out", "--start=" + start}, 2);
  };
  EXPECT_NE(error("FILE:empty.txt").find("at least one character"), std::string::npos);
  EXPECT_NE(error("FILE:none.txt").find("none.txt: expected a text file, got no such file"),
            std::string::npos);
  const std::string vocab =
      sample(directory, {"--out_dir=out", "--vocab=" + kSmall + "/vocab.json"}, 2);
  EXPECT_NE(vocab.find("--vocab: expected a model of BPE"), std::string::npos) << vocab;
}

TEST(Sample, OfAPretrainedModelIsText) {
  const TemporaryDirectory directory;
  prepare(directory);
  const Words options = {"--init_from=gpt2", "--top_k=1", "--max_new_tokens=20"};
  Words start = options;
  start.push_back("--start=<|endoftext|>");
  const std::string text = sample(directory, start);
  EXPECT_TRUE(text.starts_with("<|endoftext|>\xa7")) << text;  // PyTorch's text: token 100
  start.back() = "--start=TOKENS:263";
  EXPECT_EQ(sample(directory, start), text);
  start.push_back("--ranks=2");
  EXPECT_EQ(sample(directory, start), text);
  fs::remove(directory.file("data/gpt2/vocab.json"));
  EXPECT_TRUE(sample(directory, start).starts_with("263 100 3 3 100 100 3 72 172 172 137 "));
  start.push_back("--vocab=" + kSmall + "/vocab.json");
  EXPECT_EQ(sample(directory, start), text);
  const std::string error = sample(directory, {"--init_from=gpt2", "--start=Once"}, 2);
  EXPECT_NE(error.find("tiktoken"), std::string::npos) << error;
}

// A model that trains from GPT-2's weights knows their tokens, so its own text can be read.
TEST(Finetuning, TrainsAPretrainedModelAndReadsWhatItWrites) {
  const TemporaryDirectory directory;
  prepare(directory);
  const Words options = {
      "train",          "finetune_shakespeare", "--init_from=gpt2", "--dataset=owls",
      "--block_size=8",  // cropped from 16
      "--max_iters=20", "--eval_interval=20",   "--eval_iters=2",   "--learning_rate=0.01",
      "--out_dir=out"};
  std::string trained;
  for (const char* ranks : {"--ranks=1", "--ranks=2"}) {
    Words words = options;
    words.push_back(ranks);
    const std::string out = output_of(directory, words);
    EXPECT_NE(out.find("data       data/owls: 400 tokens to train on, 50 to validate"),
              std::string::npos)
        << out;
    EXPECT_NE(out.find("8 tokens of context, vocabulary 264"), std::string::npos) << out;
    const std::string text =
        sample(directory, {"--out_dir=out", "--start= owl", "--top_k=1", "--max_new_tokens=12"});
    EXPECT_TRUE(text.starts_with(" owl")) << text;
    if (trained.empty()) trained = text;
    EXPECT_EQ(text, trained);
  }
}

// The step is too small to change a weight. So the model is still the pretrained one, on any number
// of ranks, and writes PyTorch's text (the first tokens of expected.txt's greedy text).
TEST(Finetuning, BeginsAtThePretrainedModel) {
  const TemporaryDirectory directory;
  prepare(directory);
  const Words evaluation = {"--init_from=gpt2", "--dataset=owls", "--block_size=16",
                            "--eval_iters=1", "--batch_size=4"};
  const std::string losses = output_of(directory, Words{"eval"} + evaluation);
  EXPECT_FALSE(fs::exists(directory.file("out")));
  for (const char* ranks : {"--ranks=1", "--ranks=4"}) {
    const std::string out =
        output_of(directory, Words{"train", "finetune_shakespeare", "--max_iters=1",
                                   "--eval_interval=1", "--learning_rate=1e-9",
                                   "--always_save_checkpoint=True", "--out_dir=out", ranks} +
                                 evaluation);
    const std::size_t step = out.find("step 0: ");
    ASSERT_NE(step, std::string::npos) << out;
    EXPECT_TRUE(losses.ends_with(out.substr(step, out.find('\n', step) + 1 - step))) << losses;
    const Words options = {"--top_k=1", "--max_new_tokens=30", "--start=<|endoftext|>"};
    EXPECT_EQ(sample(directory, Words{"--out_dir=out"} + options),
              sample(directory, Words{"--init_from=gpt2"} + options));
  }
}

// The sizes of an evaluation are the model's: the context too, unless another is typed.
TEST(Finetuning, IsEvaluatedWithThePretrainedModelsContext) {
  const TemporaryDirectory directory;
  prepare(directory);
  const auto losses = [&](const Words& more) {
    const std::string out = output_of(
        directory, Words{"eval", "--init_from=gpt2", "--dataset=owls", "--eval_iters=1"} + more);
    EXPECT_NE(out.find(more.empty() ? "16 tokens of context" : " tokens of context"), out.npos);
    return out.substr(out.find("step 0: "));
  };
  EXPECT_EQ(losses({}), losses({"--block_size=16"}));
  EXPECT_NE(losses({}), losses({"--block_size=8"}));
}

// The checkpoint holds what the pretrained model's files said: its sizes, its tokens, and their
// texts.
TEST(Finetuning, IsResumedWithoutThePretrainedModel) {
  const TemporaryDirectory d;
  prepare(d);
  const auto train = [&](const Words& more, int exit_code = 0) {
    Words words = {"train",
                   "finetune_shakespeare",
                   "--dataset=owls",
                   "--block_size=8",
                   "--threads=1",
                   "--ranks=2",
                   "--always_save_checkpoint=True"};
    words.insert(words.end(), more.begin(), more.end());
    return output_of(d, words, exit_code);
  };
  train({"--init_from=gpt2", "--max_iters=8", "--out_dir=whole"});
  train({"--init_from=gpt2", "--max_iters=4", "--out_dir=out"});
  fs::remove_all(d.file("data/gpt2"));
  const std::string out = train({"--init_from=resume", "--max_iters=8", "--out_dir=out",
                                 "--n_layer=7", "--pretrained=data/gpt2"});
  for (const char* line : {"--n_layer=7 does nothing here: the checkpoint has 2",
                           "--pretrained=data/gpt2 does nothing here",
                           "2 layers, 2 heads, 8 wide, 8 tokens of context, vocabulary 264",
                           "resumed    out/checkpoint at iteration 4"}) {
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
  }
  EXPECT_TRUE(testing::read_file(d.file("out/model.safetensors")) ==
              testing::read_file(d.file("whole/model.safetensors")));
  EXPECT_TRUE(sample(d, {"--out_dir=out", "--start= owl"}).starts_with(" owl"));

  const std::string other = train({"--init_from=resume", "--out_dir=out", "--dataset=tales"}, 2);
  EXPECT_NE(other.find("the 264 tokens of the model"), std::string::npos) << other;
  // A model of characters also refuses to go on with tokens.
  output_of(d, kTraining);
  const std::string tokens = train({"--init_from=resume", "--out_dir=out"}, 2);
  EXPECT_NE(tokens.find("a model of the tokens of data 'data/owls'"), std::string::npos) << tokens;
}

// Without vocab.json tokens are numbers, until the user gives their texts.
TEST(Training, OnTokensWritesNumbers) {
  const TemporaryDirectory directory;
  prepare(directory);
  Words options = kTraining;
  options.push_back("--dataset=owls");
  const std::string out = output_of(directory, options);
  EXPECT_NE(out.find("vocabulary 50304"), std::string::npos) << out;
  const Words start = {"--out_dir=out", "--start=TOKENS:259", "--max_new_tokens=3"};
  std::istringstream text(sample(directory, start));
  for (int i = 0; i < 4; ++i) {
    int token = -1;
    EXPECT_TRUE(text >> token);
    EXPECT_GE(token, 0);
  }
  Words vocab = start;
  vocab.push_back("--vocab=" + kSmall + "/vocab.json");
  EXPECT_TRUE(sample(directory, vocab).starts_with(" the"));
  EXPECT_NE(sample(directory, {"--out_dir=out"}, 2).find("TOKENS:"), std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::sample_test
