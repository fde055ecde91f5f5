#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/config_file.h"
#include "cli/options.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "data/bpe_tokenizer.h"
#include "data/dataset.h"
#include "gpt/gpt.h"
#include "store/safetensors.h"
#include "store/weights.h"
#include "support/mutator.h"
#include "support/temporary_directory.h"
#include "train/model_file.h"
#include "train/pretrained.h"

// Tests thousands of damaged command lines, config files, texts, machine files and weights. The
// law: the result makes sense, or it is a UsageError of one short line. Under the sanitizers,
// NANOFSDP_FUZZ=1000 takes some minutes.

namespace nanofsdp::cli::fuzz_test {
namespace {

using nanofsdp::testing::fuzz_rounds;
using nanofsdp::testing::Mutator;
using nanofsdp::testing::TemporaryDirectory;

struct Count {
  int taken = 0;
  int refused = 0;
};

// Runs one attempt. Any exception except a UsageError or a help text fails the test.
void attempt(Count& count, const std::function<void()>& action) {
  try {
    action();
    ++count.taken;
  } catch (const HelpRequested& help) {
    EXPECT_FALSE(help.text.empty());
  } catch (const UsageError& error) {
    ++count.refused;
    const std::string text = error.what();
    EXPECT_LT(text.size(), 2000u);
    for (const char c : text) ASSERT_TRUE(c < 0 || c >= ' ') << "control character in " << text;
  }
}

void expect_sense(const TrainOptions& o) {
  for (const std::int64_t size :
       {o.batch_size, o.block_size, o.gradient_accumulation_steps, o.n_layer, o.n_head, o.n_embd,
        o.eval_interval, o.eval_iters, o.log_interval, std::int64_t{o.ranks}}) {
    ASSERT_GE(size, 1);
  }
  for (const double number : {o.learning_rate, o.weight_decay, o.grad_clip, o.min_lr, o.dropout}) {
    ASSERT_TRUE(std::isfinite(number) && number >= 0);
  }
  ASSERT_LT(static_cast<float>(o.dropout), 1.0f);
  ASSERT_EQ(o.n_embd % o.n_head, 0);
  ASSERT_GE(o.max_iters, 0);
  ASSERT_LE(std::int64_t{o.ranks} * threads_per_rank(o, o.ranks), 10'000);
  ASSERT_LE(static_cast<double>(o.n_layer) * static_cast<double>(o.n_embd), 1e9);
}

std::vector<std::string> names_in(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  --")) names.push_back(line.substr(4, line.find('=') - 4));
  }
  return names;
}

TEST(Fuzz, OfCommandLines) {
  std::string help;
  try {
    parse_train_options({"--help=all"});
  } catch (const HelpRequested& request) {
    help = request.text;
  }
  const std::vector<std::string> names = names_in(help);
  ASSERT_GT(names.size(), 40u);
  Mutator mutator(1);
  Count count;
  for (int i = 0; i < fuzz_rounds(6'000); ++i) {
    std::vector<std::string> args;
    for (std::size_t n = 1 + mutator.below(3); n > 0; --n) {
      std::string arg = "--" + mutator.pick(names);
      if (mutator.below(8) == 0) arg = mutator.damage(arg);
      if (mutator.below(8) != 0) arg += "=" + std::string(mutator.pick(Mutator::kWords));
      if (mutator.below(8) == 0) arg = mutator.damage(arg);
      args.push_back(arg);
    }
    attempt(count, [&] { expect_sense(parse_train_options(args)); });
    attempt(count, [&] { ASSERT_GE(parse_sample_options(args).temperature, 1e-6); });
  }
  EXPECT_GT(count.taken, 150);
  EXPECT_GT(count.refused, 1500);
}

TEST(Fuzz, OfConfigFiles) {
  const TemporaryDirectory directory;
  const std::string ours = NANOFSDP_SOURCE_DIR "/data/configs/train_shakespeare_char.py";
  const std::string seeds[] = {read_file(ours, {}, 1 << 20),
                               "import time\nn_layer = 2 * (3 - 1)\nmin_lr = beta1 / 1e4\nout_dir "
                               "= 'a\\'b\\n' # c\nbias=True\n\nbeta1 = .9\n"};
  Mutator mutator(2);
  Count count;
  for (int i = 0; i < fuzz_rounds(1'500); ++i) {
    const std::string text = mutator.damage(mutator.pick(seeds));
    attempt(count, [&] {
      for (const Setting& setting : parse_config(text, "c.py").settings) {
        ASSERT_FALSE(setting.name.empty());
        ASSERT_EQ(setting.value.find('\0'), std::string::npos);
      }
    });
    if (i % 4 == 0) {
      const std::string path = directory.write("c.py", text);
      attempt(count, [&] { expect_sense(parse_train_options({path})); });
    }
  }
  EXPECT_GT(count.taken, 200);
  EXPECT_GT(count.refused, 200);
}

TEST(Fuzz, OfTexts) {
  const std::string seed = "h\xc3\xa9llo, w\xe2\x82\xacrld \xf0\x9f\x98\x80 and others\r\n";
  Mutator mutator(3);
  Count count;
  for (int i = 0; i < fuzz_rounds(1'000); ++i) {
    const std::string text = mutator.damage(seed);
    attempt(count, [&] {
      const data::Dataset dataset(text, "t", 1);
      const data::Tokenizer& tokenizer = dataset.tokenizer();
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
      ASSERT_EQ(data::CharTokenizer(tokenizer.chars()).chars(), tokenizer.chars());
    });
  }
  EXPECT_GT(count.taken, 100);
  EXPECT_GT(count.refused, 100);
}

TEST(Fuzz, OfMachineFiles) {
  const TemporaryDirectory directory;
  const std::string folder = NANOFSDP_SOURCE_DIR "/data/machines/";
  const std::string seeds[] = {nanofsdp::testing::read_file(folder + "h100.txt"),
                               nanofsdp::testing::read_file(folder + "cpu-2.txt")};
  Mutator mutator(7);
  Count count;
  for (int i = 0; i < fuzz_rounds(2'000); ++i) {
    std::string text = mutator.pick(seeds);
    if (mutator.below(2) == 0) {  // another value in a line
      const std::size_t value = text.find(" = ", mutator.below(text.size() / 2)) + 3;
      text.replace(value, text.find_first_of(" \n", value) - value, mutator.pick(Mutator::kWords));
    } else {
      text = mutator.damage(text);
    }
    attempt(count, [&] {
      const plan::Machine m = plan::parse_machine(text, "m.txt");
      ASSERT_GE(std::min({m.cores, m.node_ranks, m.network_oversubscription}), 1);
      for (const double rate : {m.memory_bandwidth, m.products_float32, m.flops}) {
        ASSERT_TRUE(std::isfinite(rate) && rate >= 1e6);
      }
      for (const double seconds : {m.kernel_time, m.node_latency, m.network_latency}) {
        ASSERT_TRUE(seconds >= 0 && seconds <= 1);
      }
    });
    if (i % 20 != 0) continue;
    const std::string path = directory.write("m.txt", text);
    attempt(count, [&] {
      const plan::Plan plan = plan_of(parse_plan_options({"--machine=" + path, "--ranks=2"}));
      ASSERT_TRUE(std::isfinite(plan.time->seconds) && plan.time->seconds >= 0);
    });
  }
  EXPECT_GT(count.taken, 200);
  EXPECT_GT(count.refused, 200);
}

// A model as `nanofsdp train` saves it, with the smallest sizes.
std::string small_weights(const TemporaryDirectory& directory) {
  gpt::GPT model({.block_size = 2, .vocab_size = 3, .n_layer = 1, .n_head = 1, .n_embd = 2});
  std::vector<store::TensorInfo> tensors;
  for (const nn::Parameter* parameter : model.named_parameters()) {
    const auto dims = parameter->shape.dims();
    tensors.push_back({parameter->name, {dims.begin(), dims.end()}});
  }
  const std::string path = store::weights_path(directory.file("")).string();
  store::SafetensorsWriter writer(
      path, tensors,
      {{"nanofsdp", R"({"bias":true,"block_size":2,"chars":"abc","dropout":0.0,"iter_num":1,)"
                    R"("n_embd":2,"n_head":1,"n_layer":1,"val_loss":1.5,"vocab_size":3})"}});
  for (const store::TensorInfo& tensor : tensors) {
    writer.append(std::vector<float>(static_cast<std::size_t>(tensor.numel()), 0.5f));
  }
  writer.finish();
  return nanofsdp::testing::read_file(path);
}

// The reading part of `nanofsdp sample`.
void read_model(const TemporaryDirectory& directory) {
  const train::WeightsInfo info = train::read_weights_info(directory.file(""));
  ASSERT_EQ(train::make_tokenizer(info)->vocab_size(), info.config.vocab_size);
  gpt::GPT model(info.config);
  store::SafetensorsFile file(store::weights_path(directory.file("")).string());
  for (const nn::Parameter* parameter : model.named_parameters()) {
    const auto dims = parameter->shape.dims();
    const auto values = file.read({parameter->name, {dims.begin(), dims.end()}});
    ASSERT_EQ(std::ssize(values), parameter->shape.numel());
  }
}

TEST(Fuzz, OfWeights) {
  const TemporaryDirectory directory;
  const std::string whole = small_weights(directory);
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  read_model(directory);
  Mutator mutator(4);
  Count count;
  for (int i = 0; i < fuzz_rounds(1'500); ++i) {
    std::string text = mutator.damage(whole.substr(8, header));
    // The length is mostly right, so that the reader gets beyond its first check.
    std::uint64_t length = text.size();
    if (mutator.below(10) == 0) length ^= std::uint64_t{1} << mutator.below(64);
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    directory.write("model.safetensors", bytes + text + whole.substr(8 + header));
    attempt(count, [&] { read_model(directory); });
  }
  EXPECT_GT(count.taken, 0);
  EXPECT_GT(count.refused, 500);
}

// These are the files of a pretrained model, and the alphabet beside nanoGPT's data.
TEST(Fuzz, OfVocabularies) {
  const TemporaryDirectory directory;
  const std::string seeds[] = {R"({"a": 2, "\u0120b": 0, "<|endoftext|>": 1, "\u00c3": 3})",
                               R"({"n_head": 2, "model_type": "gpt2"})"};
  std::filesystem::copy(NANOFSDP_SOURCE_DIR "/tests/parity/gpt2", directory.file(""));
  Mutator mutator(5);
  Count count;
  for (int i = 0; i < fuzz_rounds(400); ++i) {
    const std::string vocab = directory.write("vocab.json", mutator.damage(seeds[0]));
    attempt(count, [&] {
      const data::BpeTokenizer tokenizer(10, data::read_vocab(vocab));
      tokenizer.decode(std::vector<std::int32_t>{tokenizer.opening(), 9});
    });
    directory.write("config.json", mutator.damage(seeds[1]));
    attempt(count, [&] {
      const gpt::GPTConfig config = train::read_model_info(directory.file("")).config;
      ASSERT_EQ(config.n_embd % config.n_head, 0);
    });
    const std::string prompt = mutator.damage("TOKENS: 1, 2 3");
    attempt(count, [&] { ASSERT_GE(data::BpeTokenizer(10, {}).encode(prompt).size(), 1u); });
  }
  EXPECT_GT(count.taken, 40);
  EXPECT_GT(count.refused, 200);
}

TEST(Fuzz, OfWeightsCutAtEveryByte) {
  const TemporaryDirectory directory;
  const std::string whole = small_weights(directory);
  Count count;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    directory.write("model.safetensors", whole.substr(0, size));
    attempt(count, [&] { read_model(directory); });
  }
  EXPECT_EQ(count.taken, 0);
}

}  // namespace
}  // namespace nanofsdp::cli::fuzz_test
