#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests every option of every command, as the program lists them, with every value that it must
// refuse: exit code 2, one line on stderr that names the option, and no file. A new option is
// tested without a change here, or the test asks for its kind.

namespace nanofsdp::bad_input_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

struct Option {
  std::string name;
  std::string shown;  // its default
};

std::vector<Option> options_of(const std::string& command) {
  const TemporaryDirectory directory;
  Process process(directory.file(""), {command, "--help=all"});
  EXPECT_EQ(process.wait(10s), 0);
  std::vector<Option> options;
  std::istringstream help(process.out());
  const std::regex option(R"(  --(\w+)=(\S*) .*)");
  std::smatch match;
  for (std::string line; std::getline(help, line);) {
    if (std::regex_match(line, match, option)) options.push_back({match[1], match[2]});
  }
  return options;
}

// Options whose value may be any text, and the texts that are still wrong.
const std::map<std::string, Words> kTexts = {
    {"text", {"", "nowhere.txt", ".", "/dev/zero", "/dev/null", "a\nb", std::string(300, 'x')}},
    {"out_dir", {"/dev/null", "/dev/null/below", "below/" + std::string(300, 'x')}},
    {"reference", {"nowhere.jsonl", "/dev/null"}},  // needs --out_dir
    {"metrics", {".", "nowhere/m", "/dev/null/below", std::string(300, 'x')}},
    {"trace", {".", "nowhere/m", "/dev/null/below", std::string(300, 'x')}},
    {"products", {}},  // a CPU does not read it
    {"start", {"", "FILE:prompt.txt", "FILE:", "FILE:."}},
    {"pretrained", {"nowhere"}},  // needs --init_from=gpt2
    {"to", {}},
    {"vocab", {"nowhere.json", ".", "/dev/null"}},
    {"machine", {"nowhere/m.txt", ".", std::string(300, 'x')}},  // bench writes it
    {"sweep", {" ", "rank", "ranks,,strategy", "ranks "}},
    {"rows", {}},
    {"wandb_project", {}},
    {"wandb_run_name", {}}};

// A plan takes these with any value: it does not look at the files of a training.
const std::set<std::string> kNotPlanned = {"dataset", "out_dir", "reference", "metrics",
                                           "pretrained"};

// The values that an option must refuse because of its kind. Numbers are never negative, and words
// are one of a few.
Words wrong_values(const Option& option) {
  if (const auto text = kTexts.find(option.name); text != kTexts.end()) return text->second;
  if (option.shown == "True" || option.shown == "False") {
    return {"", "maybe", "2", "-1", "TRUE", "None", "0.0", "True ", "Truefalse"};
  }
  if (!option.shown.empty() && std::isdigit(option.shown[0]) != 0) {
    return {"",
            "-1",
            "1x",
            "nan",
            " ",
            "four",
            "1 ",
            "inf",
            "1e999",
            "0x1p",
            "\n1",
            "1\n",
            std::string(100000, '9')};
  }
  return {"", "nonsense", option.shown + "x", " " + option.shown, option.shown + "\n", "0x"};
}

// Expects a refusal, and no file in the process's directory except its output.
void expect_refusal(const Words& args, const std::string& named) {
  const TemporaryDirectory directory;
  Process process(directory.file(""), args);
  std::string shown;
  for (const std::string& arg : args) shown += arg.substr(0, 80) + " ";
  ASSERT_EQ(process.wait(20s), 2) << shown;
  const std::string err = process.err();
  EXPECT_EQ(std::ranges::count(err, '\n'), 1) << shown << err;
  EXPECT_TRUE(err.starts_with("nanofsdp: ")) << shown << err;
  EXPECT_NE(err.find(named), std::string::npos) << shown << err;
  EXPECT_LT(err.size(), 1500u) << shown;
  EXPECT_EQ(process.out(), "") << shown;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.file(""))) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "stdout" || name == "stderr") << shown << "left " << name;
  }
}

class BadInput : public ::testing::TestWithParam<const char*> {};

// Tests up to `most` values of each option. Options that `train` has too are read by the same code,
// so two values are enough for them.
void expect_refusals(const std::string& command, std::size_t most) {
  const std::vector<Option> options = options_of(command);
  ASSERT_GE(options.size(), 4u);
  std::set<std::string> tried;
  if (command != "train") {
    for (const Option& option : options_of("train")) tried.insert(option.name);
  }
  for (const Option& option : options) {
    if (command == "plan" && kNotPlanned.contains(option.name)) continue;
    const std::string name = "--" + option.name;
    Words values = wrong_values(option);
    if (!kTexts.contains(option.name)) values.resize(std::min(values.size(), most));
    if (tried.contains(option.name)) values.resize(std::min<std::size_t>(values.size(), 2));
    for (const std::string& value : values) {
      // An error of `--text=` names the option. An unusable text is named by its path.
      std::string named = name;
      const bool reads = command == "train" || command == "plan";
      if (option.name == "text" && !value.empty() && reads) named = "text '";
      if (option.name == "out_dir" && (command == "sample" || command == "export"))
        named = "weights '";
      // The program looks for the model before it reads any text.
      const bool text_or_file = kTexts.contains(option.name) || option.name == "dataset";
      if (command == "eval" && text_or_file) named = "checkpoint '";
      if (option.name == "machine" && command == "plan") named = "machine ";
      if (option.name == "vocab") named = "vocabulary '" + value;
      expect_refusal({command, name + "=" + value}, named);
    }
    expect_refusal({command, name}, name);
    expect_refusal({command, name + "_=1"}, name + "_");
  }
}

// This takes a second: one process for each option and value. One function reads all numbers, and
// another one all booleans. Four values show that the function reads the option, and that it has a
// range.
TEST_P(BadInput, IsRefusedByEveryOption) { expect_refusals(GetParam(), 4); }
TEST_P(BadInput, LongIsRefusedByEveryOptionWhateverTheValue) { expect_refusals(GetParam(), 99); }

TEST_P(BadInput, IsRefusedWhateverItLooksLike) {
  for (const char* argument :
       {"", "-", "--", "--=", "--=1", "-h=", "---help", "no such file", "=", "\n", "\x1b[2J",
        "--config=", "--config=nowhere", "--config=.", "--config=/dev/zero", "/dev/zero", "."}) {
    expect_refusal({GetParam(), argument}, "");
  }
  expect_refusal({GetParam(), "--" + std::string(100'000, 'x')}, "unknown option --xxx");
  expect_refusal({GetParam(), "--config=train_shakespeare_char", "another.py"}, "'another.py'");
}

INSTANTIATE_TEST_SUITE_P(Of, BadInput,
                         ::testing::Values("train", "eval", "sample", "export", "compare", "plan",
                                           "bench"));

TEST(BadCombination, IsRefusedBeforeAnythingIsTaken) {
  const struct {
    Words options;
    const char* named;
  } combinations[] = {
      {{"--n_embd=1000000"}, "GB of memory"},
      {{"--n_layer=1000", "--n_embd=20000"}, "GB of memory"},
      {{"--batch_size=1000000", "--n_embd=100000"}, "GB of memory"},
      {{"--ranks=1025", "--batch_size=1025"}, "--ranks"},
      {{"--ranks=1000", "--batch_size=1000", "--threads=1000"}, "--threads"},
      {{"--dropout=0.9999999999"}, "--dropout"},  // 1 in float32
      {{"--metrics=m", "--trace=m"}, "that of --metrics"},
      {{"--metrics=m", "--trace=./x/../m"}, "that of --metrics"},
      {{"--out_dir=o", "--metrics=o/model.safetensors"}, "that of --out_dir"},
      {{"--out_dir=o", "--metrics=none/m"}, "no such directory"},
      {{"--metrics=m", "--trace=none/t"}, "no such directory"},
      {{"--out_dir=o", "--metrics=o/run.svg"}, "that of --out_dir"},
      {{"--out_dir=o", "--metrics=o/checkpoint"}, "that of --out_dir"},
      {{"--out_dir=o", "--metrics=o/checkpoint/m"}, "that of --out_dir"},
      {{"--out_dir=o", "--metrics=./o/x/../checkpoint.previous"}, "that of --out_dir"},
      {{"--out_dir=o", "--trace=o/checkpoint.new"}, "that of --out_dir"},
      {{"--out_dir=o", "--trace=o/model.safetensors.tmp"}, "that of --out_dir"},
      {{"--out_dir=o", "--trace=o/run.svg.tmp"}, "that of --out_dir"},
      {{"--out_dir=o", "--metrics=o/run.lock"}, "that of --out_dir"},
      {{"--metrics=/dev/stdout"}, "where this command prints"},
      {{"--trace=stderr"}, "where this command prints"},
      {{"--out_dir=o", "--reference=m", "--metrics=m"}, "that of --reference"},
      {{"--out_dir=o", "--reference=m"}, "no such file"},
      {{"--shard_size=2"}, "--shard_size"},
      {{"--n_head=3"}, "--n_embd"},
      {{"--init_from=gpt2"}, "data/gpt2/model.safetensors"},
      {{"--init_from=gpt2-xl"}, "data/gpt2-xl/model.safetensors"},
      {{"--init_from=gpt2", "--pretrained=none"}, "none/model.safetensors"},
      {{"--init_from=gpt2", "--n_layer=3"}, "--n_layer"},
      {{"--dataset=openwebtext"}, "data/openwebtext/train.bin"},
      {{"train_gpt2"}, "data/openwebtext/train.bin"},
      {{"config/finetune_shakespeare.py"}, "data/gpt2-xl/model.safetensors"},
  };
  for (const auto& combination : combinations) {
    Words args = {"train"};
    args.insert(args.end(), combination.options.begin(), combination.options.end());
    expect_refusal(args, combination.named);
  }
  expect_refusal({"sample", "--temperature=1e-300"}, "--temperature");
  expect_refusal({"sample", "--init_from=gpt2"}, "data/gpt2/model.safetensors");
  expect_refusal({"sample", "--init_from=gpt2", "--pretrained=none"}, "none/model.safetensors");
}

}  // namespace
}  // namespace nanofsdp::bad_input_test
