#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plan_options.h"
#include "support/process.h"
#include "support/temporary_directory.h"

// Tests `nanofsdp plan`: its numbers equal those that a run measures.

namespace nanofsdp::plan_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

std::string printed(const Words& words) {
  const TemporaryDirectory directory;
  Process process(directory.file(""), words);
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  return process.out();
}

// The rows of "memory of a rank, bytes" and "traffic of a step" where `text` has them last. A row's
// value is its last number, which is the measured one if there are two.
std::map<std::string, std::string> rows(const std::string& text) {
  std::map<std::string, std::string> result;
  std::istringstream table(text.substr(text.rfind("memory of a rank")));
  for (std::string line; std::getline(table, line) && !line.empty();) {
    if (line[0] != ' ' || line.find("between steps") != line.npos) continue;
    const std::string name = line.substr(2, 22);
    result[name] = line.substr(line.rfind(' ') + 1);
  }
  return result;
}

// The plan has activations too. This takes some seconds: fifteen runs of four processes.
TEST(Plan, IsWhatARunMeasures) {
  const std::vector<Words> shardings = {
      {"--strategy=no_shard"},
      {"--strategy=shard_optimizer"},
      {"--strategy=shard_gradients"},
      {"--strategy=shard_grad_op"},
      {"--strategy=full_shard"},
      {"--strategy=hybrid_shard", "--shard_size=2"},
      {"--strategy=hybrid_shard_optimizer", "--shard_size=2", "--param_dtype=bfloat16"},
      {"--zero=3", "--param_dtype=bfloat16"},
      {"--zero=0", "--param_dtype=bfloat16", "--reduce_dtype=bfloat16"},
      {"--zero=3", "--no_sync=True", "--forward_prefetch=9"},
      {"--zero=2", "--backend=local"},
      {"--layout=per_parameter", "--bias=True"},
      {"--layout=per_parameter", "--zero=1", "--reduce_dtype=bfloat16"},
      {"--zero=1", "--dropout=0.2", "--bias=True"},
      {"--strategy=full_shard", "--gradient_accumulation_steps=3", "--batch_size=6"}};
  for (const Words& sharding : shardings) {
    Words words = {"train",           "--ranks=4",     "--gradient_accumulation_steps=8",
                   "--n_layer=3",     "--n_embd=36",   "--n_head=2",
                   "--block_size=16", "--max_iters=2", "--explain=True",
                   "--eval_iters=1",  "--sample=0"};
    words.insert(words.end(), sharding.begin(), sharding.end());
    if (sharding[0] == "--zero=3") words.emplace_back("--recompute=block");
    if (sharding[0] == "--zero=1") words.emplace_back("--recompute=selective");
    const auto measured = rows(printed(words));
    words[0] = "plan";
    const auto planned = rows(printed(words));
    EXPECT_GE(planned.size(), 8u);
    EXPECT_EQ(planned, measured) << sharding[0];
  }
}

TEST(Plan, IsThatOfTrainByDefault) {
  const std::string plan = printed({"plan"}),
                    train = printed({"train", "--max_iters=0", "--eval_iters=1", "--sample=0"});
  const std::string model = "802,432 parameters";
  EXPECT_NE(plan.find(model), plan.npos) << plan;
  EXPECT_NE(train.find(model), train.npos) << train;
}

// The plan uses the training's model and text. A typed option overrides a config file, and a config
// file overrides the model's values.
TEST(Plan, TakesAConfigOfATraining) {
  const auto model_of = [](const Words& args) {
    const cli::PlanOptions o = cli::parse_plan_options(args);
    const cli::TrainOptions& t = o.training;
    return fmt::format("{}, {} x {}, vocabulary {}, dropout {}, {} x {} x {}", o.model, t.n_layer,
                       t.n_embd, t.vocab_size, t.dropout, t.gradient_accumulation_steps,
                       t.batch_size, t.block_size);
  };
  EXPECT_EQ(model_of({"train_gpt2"}), "gpt, 12 x 768, vocabulary 50304, dropout 0, 40 x 12 x 1024");
  EXPECT_EQ(model_of({"config/train_shakespeare_char.py", "--batch_size=32"}),
            "gpt, 6 x 384, vocabulary 65, dropout 0.2, 1 x 32 x 256");
  EXPECT_TRUE(model_of({"finetune_shakespeare"}).starts_with("gpt2-xl, "));
  EXPECT_TRUE(model_of({"finetune_shakespeare"}).ends_with("dropout 0, 32 x 1 x 1024"));
  EXPECT_TRUE(model_of({"finetune_shakespeare", "--model=gpt2"}).starts_with("gpt2, "));
  EXPECT_NE(model_of({"--text=any", "--vocab_size=7"}).find("vocabulary 7,"), std::string::npos);
  const TemporaryDirectory directory;
  const std::string text = directory.write("text", std::string(500, 'a') + std::string(500, 'b'));
  EXPECT_EQ(printed({"plan", "--text=" + text}), printed({"plan", "--vocab_size=2"}));
  const std::string config =
      directory.write("config", "model = 'llama-3-8b'\nbatch_size = 6\nblock_size = 512\n");
  EXPECT_TRUE(model_of({config, "--ranks=2"}).ends_with(" 2 x 6 x 512"));
  const std::string of_text = directory.write("of_text", "text = 'any'\n");
  EXPECT_EQ(model_of({of_text, "--dataset=tales"}),
            "gpt, 12 x 768, vocabulary 52, dropout 0, 40 x 12 x 1024");
}

// The row of `text` that begins with `name`, with one space between words.
std::string row(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string squeezed;
    for (std::string word; words >> word;) squeezed += (squeezed.empty() ? "" : " ") + word;
    if (squeezed.starts_with(name)) return squeezed.substr(name.size());
  }
  return "no row " + name;
}

TEST(Plan, HasTheFiguresOfALecture) {
  const std::string zero = printed({"plan", "--parameters=7.5e9", "--ranks=64"});
  EXPECT_TRUE(row(zero, "between steps").starts_with(" 0.25 bytes a parameter")) << zero;
  // Llama 70B in round numbers and in its own shapes.
  const std::string round = printed({"plan", "--parameters=70e9", "--unit=0.9e9", "--ranks=1280"});
  EXPECT_TRUE(row(round, "parameter shards").starts_with(" 218,75")) << round;
  const std::string llama = printed({"plan", "--model=llama-2-70b", "--ranks=128", "--device=cuda",
                                     "--param_dtype=bfloat16", "--reduce_dtype=bfloat16"});
  EXPECT_EQ(row(llama, "model"),
            " 68,976,648,192 parameters in 81 units: 80 x 855,654,400 + root "
            "524,296,192");
  EXPECT_EQ(row(llama, "parameter shards"), " 2,155,520,256");
  // A GPU computes in bfloat16, and keeps gradients in float32.
  EXPECT_EQ(row(llama, "unsharded parameters 4"), ",471,209,984");
  EXPECT_EQ(row(llama, "unsharded gradients 8"), ",942,419,968");
}

TEST(Plan, KnowsItsModels) {
  for (const auto& [model, begin] : {std::pair("gpt2", " 124,439,808 "),
                                     {"gpt2-medium", " 354,823,168 "},
                                     {"gpt2-large", " 774,030,080 "},
                                     {"gpt2-xl", " 1,557,611,200 "},
                                     {"llama-2-7b", " 6,738,415,616 "},
                                     {"llama-3-405b", " 405,853,388,800 "}}) {
    const std::string text = row(printed({"plan", std::string("--model=") + model}), "model");
    EXPECT_TRUE(text.starts_with(begin)) << text;
  }
}

// The plan on a machine is printed as JSON, whose numbers agree, and in words.
TEST(Plan, SaysHowLongAStepTakes) {
  const Words words = {"plan",           "--model=llama-3-8b",    "--machine=h100", "--ranks=64",
                       "--batch_size=2", "--recompute=selective", "--json=True"};
  const auto json = nlohmann::json::parse(printed(words));
  EXPECT_EQ(json["parameters"], 8'030'261'248);
  const double seconds = json["seconds"], tokens = json["tokens_per_s"], mfu = json["mfu"];
  EXPECT_NEAR(tokens * seconds, 2 * 8192, 1e-6);
  // The parameters of a product count six times. The pairs of attention, half of T * T, count for
  // seven products.
  const double flops = 6 * (8'030'261'248.0 - 128'256 * 4096) + 7.0 * 32 * 4096 * 8192;
  EXPECT_NEAR(mfu * 989e12 / (flops * tokens), 1, 0.02);
  EXPECT_GT(json["communication_seconds"], json["exposed_seconds"]["all_gathers"]);
  EXPECT_TRUE(json["fits"]);
  Words in_words = words;
  in_words.pop_back();  // without --json
  const double gathers = json["exposed_seconds"]["all_gathers"],
               reductions = json["exposed_seconds"]["reductions"];
  const std::string told = printed(in_words);
  EXPECT_EQ(row(told.substr(told.find("on h100")), "communication"),
            fmt::format(" {:.2f} ms, of which {:.2f} ms exposed: {:.2f} ms for parameters, "
                        "{:.2f} ms for gradients",
                        1e3 * json["communication_seconds"].get<double>(),
                        1e3 * (gathers + reductions), 1e3 * gathers, 1e3 * reductions));
}

TEST(Plan, SweepsAsATable) {
  const std::string table = printed(
      {"plan", "--model=gpt2-xl", "--machine=a100-80", "--ranks=16", "--sweep=ranks,strategy"});
  EXPECT_EQ(std::ranges::count(table, '\n'), 2 + 5 * 5);  // 1 to 16 ranks, five strategies
}

TEST(Plan, TracesTheStepOnTheMachine) {
  const TemporaryDirectory d;
  Process process(d.file(""), {"plan", "--machine=h100", "--ranks=4", "--trace=t.json"});
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  const auto events = nlohmann::json::parse(testing::read_file(d.file("t.json")))["traceEvents"];
  double last = 0;
  int gathers = 0;
  for (const auto& event : events) {
    if (!event.contains("dur")) continue;
    EXPECT_GE(event["dur"].get<double>(), 0);
    last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
    gathers += event["tid"] == 1;
  }
  EXPECT_EQ(gathers, 4 + 1 + 4);  // one of the root, two of each block
  EXPECT_GT(last, 100);           // in microseconds
  EXPECT_LT(last, 1e5);
}

TEST(Plan, RefusesWhatContradicts) {
  const struct {
    Words options;
    const char* named;
  } cases[] = {
      {{"--model=gpt2", "--n_layer=3"}, "--n_layer: expected nothing beside --model"},
      {{"--parameters=1e9", "--vocab_size=9"}, "--vocab_size"},
      {{"--parameters=1e9", "--model=gpt2"}, "--parameters"},
      {{"--parameters=0.5"}, "--parameters: expected 1 or more"},
      {{"--unit=3"}, "--parameters"},
      {{"--parameters=2000", "--unit=1"}, "--unit: expected 1 or more"},
      {{"--n_embd=10", "--n_head=3"}, "n_embd"},
      {{"--strategy=hybrid_shard", "--ranks=4"}, "--shard_size"},
      {{"--device=cuda", "--backend=gloo"}, "--backend: expected nccl or local"},
      {{"--reduction=ring"}, "--reduction: expected ordered with --backend=gloo"},
      {{"--device=cuda", "--backend=local", "--reduction=ring"}, "--reduction: expected ordered"},
      {{"--n_layer=1000", "--n_embd=1000000", "--gradient_accumulation_steps=100"},
       "--gradient_accumulation_steps: expected fewer"},
      {{"--batch_size=1000000", "--block_size=1000000", "--n_embd=1000000"},
       "--batch_size: expected fewer tokens, or gradient_accumulation_steps"},
      {{"--layout=nonsense"},
       "--layout: expected flat or per_parameter or row_aligned, got 'nonsense'"},
      {{"--machine=h300"}, "machine 'h300': expected a text file, or one that is built in"},
      {{"--machine=h100", "--device=cpu"}, "--device: expected cuda on this --machine"},
      {{"--trace=t.json"}, "--trace: expected a --machine beside it"},
      {{"--network_bandwidth=400"}, "--network_bandwidth: expected bytes/s, 1e6 or more"},
      {{"--sweep=rank"}, "--sweep: expected ranks, batch_size, strategy or recompute"},
      {{"--text=any", "--dataset=tales"}, "give one of them"},
      {{"--maximum=3"}, "unknown option --maximum"}};
  for (const auto& [options, named] : cases) {
    const TemporaryDirectory directory;
    Words words = {"plan"};
    words.insert(words.end(), options.begin(), options.end());
    Process process(directory.file(""), words);
    EXPECT_EQ(process.wait(10s), 2) << named;
    EXPECT_NE(process.err().find(named), std::string::npos) << process.err();
    EXPECT_EQ(process.out(), "");
  }
}

}  // namespace
}  // namespace nanofsdp::plan_test
