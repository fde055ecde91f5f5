#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests that `nanofsdp plan` takes no option and then ignores it: the plan is another one, or a
// note says that the option does nothing, or it is refused.

namespace nanofsdp::plan_effect_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

// A value of each option that none of the runs below has.
const std::map<std::string, std::string> kOthers = {{"model", "gpt2-medium"},
                                                    {"vocab_size", "77"},
                                                    {"parameters", "2e9"},
                                                    {"unit", "1e8"},
                                                    {"recompute_every", "2"},
                                                    {"compile", "True"},
                                                    {"fused_norm", "True"},
                                                    {"fused_loss", "True"},
                                                    {"ranks", "8"},
                                                    {"tensor", "2"},
                                                    {"device", "cuda"},
                                                    {"machine", "a100-80"},
                                                    {"network_bandwidth", "2e9"},
                                                    {"memory_reserve", "78"},
                                                    {"fit", "20GB"},
                                                    {"sweep", "batch_size"},
                                                    {"kernels", "pytorch"},
                                                    {"attention", "flash3"},
                                                    {"trace", "t.json"},
                                                    {"json", "True"},
                                                    {"dataset", "openwebtext"},
                                                    {"text", "text"},
                                                    {"batch_size", "24"},
                                                    {"gradient_accumulation_steps", "16"},
                                                    {"n_layer", "3"},
                                                    {"n_head", "2"},
                                                    {"n_embd", "64"},
                                                    {"bias", "True"},
                                                    {"block_size", "128"},
                                                    {"dropout", "0.1"},
                                                    {"out_dir", "o"},
                                                    {"backend", "local"},
                                                    {"transport", "gloo"},
                                                    {"threads", "2"},
                                                    {"strategy", "shard_optimizer"},
                                                    {"zero", "2"},
                                                    {"layout", "per_parameter"},
                                                    {"shard_size", "2"},
                                                    {"reshard_after_forward", "2"},
                                                    {"unsharded_blocks", "1"},
                                                    {"forward_prefetch", "3"},
                                                    {"no_sync", "True"},
                                                    {"param_dtype", "float32"},
                                                    {"reduce_dtype", "bfloat16"},
                                                    {"reduction", "ring"},
                                                    {"backward_prefetch", "none"},
                                                    {"recompute", "block"},
                                                    {"init_from", "gpt2-xl"},
                                                    {"pretrained", "p"},
                                                    {"dtype", "bfloat16"},
                                                    {"wandb_log", "True"},
                                                    {"decay_lr", "False"},
                                                    {"eval_only", "True"},
                                                    {"always_save_checkpoint", "True"},
                                                    {"init_order", "fsdp"},
                                                    {"explain", "True"}};

// Another value for the runs that have the first.
const std::map<std::string, std::string> kDefaults = {
    {"param_dtype", "bfloat16"}, {"device", "cpu"},    {"fused_loss", "False"},
    {"fused_norm", "False"},     {"compile", "False"}, {"kernels", "pytorch-compiled"},
    {"json", "False"},           {"dataset", "tales"}, {"tensor", "4"}};

// Runs the program, and returns all that it prints and leaves, or "refused" if it ends with an
// error.
std::string outcome(const Words& words) {
  const TemporaryDirectory directory;
  directory.write("text", std::string(500, 'a') + std::string(500, 'b'));
  Process process(directory.file(""), words);
  if (process.wait(60s) == 2) return "refused";
  std::string all = process.out();
  for (const char* file : {"t.json"}) {
    if (std::filesystem::exists(directory.file(file))) all += file;
  }
  return all;
}

void expect_effects(const Words& base) {
  const TemporaryDirectory directory;
  const std::string before = outcome(base);
  std::istringstream help(testing::output_of(directory, {"plan", "--help=all"}));
  const std::regex option(R"(  --(\w+)=.*)");
  std::smatch match;
  int tried = 0;
  for (std::string line; std::getline(help, line);) {
    if (!std::regex_match(line, match, option)) continue;
    const auto other = kOthers.find(match[1]);
    // The rest is of the optimizer, of evaluations and of outputs, and takes a small number.
    const std::string value = other == kOthers.end() ? "0.5" : other->second;
    const std::string whole = other == kOthers.end() ? "7" : other->second;
    // One of these is another value than that of the run.
    const auto also = kDefaults.find(match[1]);
    const std::string second = also == kDefaults.end() ? whole : also->second;
    const auto differs = [&](const std::string& v) {
      Words words = base;
      words.push_back("--" + match[1].str() + "=" + v);
      return outcome(words) != before;
    };
    EXPECT_TRUE(differs(value) || differs(second)) << base[1] << " --" << match[1];
    ++tried;
  }
  EXPECT_GT(tried, 65);
}

TEST(PlanEffect, OfEachOptionIsSeenOrSaid) {
  expect_effects(
      {"plan", "--n_layer=5", "--ranks=4", "--batch_size=8", "--gradient_accumulation_steps=8"});
  expect_effects({"plan", "train_gpt2", "--machine=h100", "--ranks=4"});
  expect_effects({"plan", "--model=llama-3-1b", "--machine=h100", "--ranks=16",
                  "--gradient_accumulation_steps=32"});
}

TEST(PlanEffect, LongOfEachOptionIsSeenOrSaidForOtherModels) {
  expect_effects({"plan", "--model=mpt-1b", "--machine=h100", "--ranks=4", "--json=True"});
  expect_effects({"plan", "--model=gpt2", "--machine=h100"});
  expect_effects({"plan", "--model=llama-3-1b", "--machine=h100", "--ranks=16", "--tensor=2"});
  expect_effects({"plan", "--parameters=1e9", "--unit=2e8", "--machine=h100", "--ranks=4"});
  expect_effects({"plan", "--model=gpt2", "--machine=h100", "--ranks=4", "--sweep=ranks"});
}

}  // namespace
}  // namespace nanofsdp::plan_effect_test
