#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests that no option is taken and then ignored: with two values of an option, something comes out
// differently, or a note says that the option does nothing, and why.

namespace nanofsdp::effect_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

const Words kTiny = {"--max_iters=4",        "--eval_interval=2", "--warmup_iters=1",
                     "--eval_iters=1",       "--n_layer=2",       "--n_embd=16",
                     "--n_head=2",           "--block_size=8",    "--batch_size=4",
                     "--learning_rate=0.01", "--sample=5",        "--log_interval=1",
                     "--threads=1",          "--lr_decay_iters=4"};

Words operator+(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// The names of the events of rank 0 in the order in which they began.
std::string order_in(const std::string& trace) {
  std::vector<std::pair<double, std::string>> events;
  const auto json = nlohmann::json::parse(trace);
  for (const auto& event : json.at("traceEvents")) {
    if (event["ph"] == "X" && event["pid"] == 0) events.emplace_back(event["ts"], event["name"]);
  }
  std::ranges::sort(events);
  std::string order;
  for (const auto& [when, name] : events) order += name + "\n";
  return order;
}

// The part of a file that does not depend on how long things took.
std::string essence(const std::filesystem::path& path) {
  const std::string text = testing::read_file(path.string());
  const std::string name = path.filename().string();
  if (name == "trace.json") return order_in(text);
  if (name == "run.svg") return std::to_string(std::ranges::count(text, '>'));
  if (!name.ends_with(".jsonl")) return std::to_string(text.size());
  static const std::regex times(R"re("(ms|tokens_per_s|mfu)":[^,}]*)re");
  return std::regex_replace(text, times, "");
}

// Runs the program, and returns all that it shows and leaves, apart from times.
std::string outcome(const Words& args) {
  const TemporaryDirectory directory;
  directory.write("reference.jsonl", "{\"iter\": 0, \"loss\": 3}\n{\"iter\": 1, \"loss\": 2}\n");
  std::string all;
  const bool reads = args[0] != "train" && args[0] != "compare";
  for (const Words& words : {reads ? Words{"train", "--out_dir=out"} + kTiny : Words(), args}) {
    if (words.empty()) continue;
    Process process(directory.file(""), words);
    all = "exit code " + std::to_string(process.wait(60s)) + "\n";
    all += process.out() + process.err();
  }
  static const std::regex times(R"([\d.]+ms|[\d,]+ tokens/s|(mfu|time|overlap) .*|, mfu.*)");
  all = std::regex_replace(all, times, "");
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory.file(""))) {
    const std::string name = file.path().filename().string();
    if (!file.is_regular_file() || name == "stdout" || name == "stderr") continue;
    all += file.path().lexically_relative(directory.file("")).string() + ": " +
           essence(file.path()) + "\n";
  }
  return all;
}

// An option's two values, and what else is typed so that it matters.
struct Trial {
  std::string option, a, b;
  Words more{};
};

void expect_effects(const std::string& command, const Words& base,
                    const std::vector<Trial>& trials) {
  for (const auto& [option, a, b, more] : trials) {
    const std::string name = "--" + option + "=";
    const std::string of_a = outcome(Words{command} + base + more + Words{name + a});
    const std::string of_b = outcome(Words{command} + base + more + Words{name + b});
    EXPECT_TRUE(of_a.starts_with("exit code 0")) << name << a << "\n" << of_a;
    EXPECT_TRUE(of_b.starts_with("exit code 0")) << name << b << "\n" << of_b;
    const std::string note = name + b + " does nothing here: ";
    const bool said = of_b.find(note) != std::string::npos;
    EXPECT_EQ(of_b.find(note), of_b.rfind(note)) << "each option is noted once\n" << of_b;
    EXPECT_TRUE(of_a != of_b || said) << command << " " << name << a << " and " << b << "\n"
                                      << of_a;
  }
}

const Words kTwoRanks = kTiny + Words{"--ranks=2", "--metrics=m.jsonl"};

const std::vector<Trial> kOfTraining = {
    {"batch_size", "4", "8"},
    {"gradient_accumulation_steps", "1", "2"},
    {"n_layer", "2", "3"},
    {"n_head", "2", "4"},
    {"n_embd", "16", "32"},
    {"bias", "False", "True"},
    {"block_size", "8", "16"},
    {"dropout", "0", "0.5"},
    {"max_iters", "4", "5"},
    {"learning_rate", "0.01", "0.02"},
    {"weight_decay", "0.1", "0.5"},
    {"beta1", "0.9", "0.5"},
    {"beta2", "0.99", "0.9"},
    {"grad_clip", "1", "0.1"},
    {"decay_lr", "True", "False"},
    {"warmup_iters", "1", "2"},
    {"lr_decay_iters", "4", "6"},
    {"min_lr", "0.0001", "0.001"},
    {"eval_interval", "2", "3"},
    {"eval_iters", "1", "2"},
    {"eval_only", "False", "True"},
    {"sample", "5", "0"},
    {"log_interval", "1", "2"},
    {"out_dir", "", "o"},
    {"always_save_checkpoint", "False", "True", {"--out_dir=o", "--learning_rate=3"}},
    {"ranks", "2", "1"},
    {"backend", "gloo", "local"},
    {"transport", "shared", "gloo"},
    {"threads", "1", "2"},
    {"strategy", "no_shard", "full_shard"},
    {"zero", "0", "3"},
    {"layout", "flat", "per_parameter"},
    {"shard_size", "1", "2", {"--strategy=hybrid_shard", "--ranks=4"}},
    {"reshard_after_forward", "0", "2", {"--ranks=4"}},
    {"unsharded_blocks", "0", "1"},
    {"forward_prefetch", "0", "1", {"--trace=trace.json"}},
    {"no_sync", "False", "True", {"--gradient_accumulation_steps=4"}},
    {"param_dtype", "float32", "bfloat16"},
    {"reduce_dtype", "float32", "bfloat16"},
    {"backward_prefetch", "pre", "none", {"--trace=trace.json"}},
    {"recompute", "none", "block"},
    {"init_order", "nanogpt", "fsdp"},
    {"metrics", "m.jsonl", "n.jsonl"},
    {"reference", "", "reference.jsonl", {"--out_dir=o"}},
    {"trace", "", "trace.json"},
    {"products", "", "p"},
    {"explain", "False", "True"},
    {"seed", "1337", "1"},
    {"compile", "False", "True"},
    {"dtype", "float32", "bfloat16"},
    {"wandb_log", "False", "True"},
    {"wandb_project", "", "a"},
    {"wandb_run_name", "", "a"}};

// Options that need more than this test has, and the tests that try them.
const std::set<std::string> kElsewhere = {
    "dataset",   "text",        // Dataset
    "init_from", "pretrained",  // Resume, Pretrained
    "timeout",                  // Waiting: only a rank that is late shows it
    "device",    "reduction"};  // GPUs and NCCL; without them they are refused

TEST(Effect, LongOfEveryOptionOfTrainIsSeenOrSaid) {
  expect_effects("train", kTwoRanks, kOfTraining);
  std::set<std::string> tried = kElsewhere;
  for (const Trial& trial : kOfTraining) tried.insert(trial.option);
  const TemporaryDirectory directory;
  std::istringstream help(testing::output_of(directory, {"train", "--help=all"}));
  const std::regex option(R"(  --(\w+)=.*)");
  std::smatch match;
  for (std::string line; std::getline(help, line);) {
    const bool known = !std::regex_match(line, match, option) || tried.contains(match[1]);
    EXPECT_TRUE(known) << line;
  }
}

// One rank, whole parameters, a constant learning rate: options that matter elsewhere do nothing.
TEST(Effect, LongOfWhatDoesNothingIsSaid) {
  expect_effects("train", kTiny,
                 {{"strategy", "no_shard", "full_shard"},
                  {"zero", "0", "2"},
                  {"layout", "flat", "per_parameter"},
                  {"unsharded_blocks", "0", "1"},
                  {"forward_prefetch", "0", "1"},
                  {"backward_prefetch", "pre", "none"},
                  {"backend", "gloo", "local"},
                  {"transport", "shared", "gloo"},
                  {"no_sync", "False", "True"},
                  {"always_save_checkpoint", "False", "True"},
                  {"param_dtype", "float32", "bfloat16"},
                  {"warmup_iters", "1", "2", {"--decay_lr=False"}},
                  {"lr_decay_iters", "4", "6", {"--decay_lr=False"}},
                  {"min_lr", "0.0001", "0.001", {"--decay_lr=False"}}});
  expect_effects("train", kTwoRanks + Words{"--strategy=no_shard"},
                 {{"forward_prefetch", "0", "1"}, {"backward_prefetch", "pre", "none"}});
}

// A model is saved before, so only the options of training are without meaning.
TEST(Effect, LongOfEveryOptionOfEvalIsSeenOrSaid) {
  std::vector<Trial> trials;
  const std::set<std::string> sizes = {"n_layer", "n_head", "n_embd", "bias", "block_size"};
  for (const Trial& trial : kOfTraining) {
    const bool needs_training = trial.option == "eval_only" || trial.option == "forward_prefetch" ||
                                trial.option == "explain" || trial.option == "reference";
    if (!needs_training && trial.option != "out_dir" && !sizes.contains(trial.option))
      trials.push_back({trial.option, trial.a, trial.b});
  }
  std::erase_if(trials, [](const Trial& trial) {
    return trial.option == "shard_size" || trial.option == "reshard_after_forward";
  });
  expect_effects("eval", {"--ranks=2", "--threads=1"}, trials);
  for (const std::string& size : sizes) {
    const std::string b = size == "bias" ? "True" : "1";
    EXPECT_NE(outcome({"eval", "--" + size + "=" + b}).find("does nothing here"),
              std::string::npos);
  }
}

// Ranks, threads and transport change how the work is done, and not what comes out.
TEST(Effect, LongOfEveryOptionOfSampleAndExportIsSeen) {
  expect_effects("sample", {"--max_new_tokens=20", "--ranks=2"},
                 {{"start", "a", "t"},
                  {"num_samples", "1", "2"},
                  {"max_new_tokens", "5", "6"},
                  {"temperature", "0.8", "2"},
                  {"top_k", "200", "1"},
                  {"seed", "1", "2"},
                  {"compile", "False", "True"},
                  {"dtype", "float32", "bfloat16"},
                  {"wandb_log", "False", "True"}});
  expect_effects("export", {},
                 {{"to", "a", "b"}, {"ranks", "1", "2"}, {"dtype", "float32", "bfloat16"}});
}

}  // namespace
}  // namespace nanofsdp::effect_test
