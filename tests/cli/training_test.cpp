#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

namespace nanofsdp::training_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Process;
using testing::read_file;
using testing::TemporaryDirectory;

// Runs `nanofsdp train` with these options and returns its metrics, one entry for each line.
std::vector<json> metrics(const TemporaryDirectory& directory, std::vector<std::string> options) {
  options.insert(options.begin(), {"train", "--metrics=metrics.jsonl", "--n_layer=2", "--n_embd=32",
                                   "--n_head=2", "--block_size=16", "--eval_iters=2"});
  Process process(directory.file(""), options);
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  EXPECT_EQ(process.err(), "");
  std::vector<json> lines;
  std::istringstream text(read_file(directory.file("metrics.jsonl")));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(Training, WritesOneMetricsLineAStepAndAnEvaluation) {
  const TemporaryDirectory directory;
  const auto lines = metrics(directory, {"--max_iters=5", "--eval_interval=2", "--ranks=2"});
  std::vector<std::int64_t> steps, evaluations;
  for (const json& line : lines) {
    (line.contains("loss") ? steps : evaluations).push_back(line["iter"]);
    if (!line.contains("loss")) continue;
    EXPECT_GT(line["bytes_sent"], 0);
    EXPECT_EQ(line["bytes_sent"], line["bytes_received"]);
    EXPECT_EQ(line["bytes_sent"], lines[1]["bytes_sent"]);  // every step sends the same
    EXPECT_GT(line["peak_bytes"]["parameter shards"], 0);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(evaluations, (std::vector<std::int64_t>{0, 2, 4, 5}));
}

// The training is the same if ranks share rows or micro-batches: dropout masks belong to rows.
TEST(Training, IsTheSameAtEveryWorldSize) {
  const std::vector<std::string> common = {"--max_iters=8",
                                           "--eval_interval=8",
                                           "--dropout=0.1",
                                           "--batch_size=10",
                                           "--gradient_accumulation_steps=2",
                                           "--learning_rate=1e-3",
                                           "--warmup_iters=2"};
  const auto run = [&](std::vector<std::string> more) {
    const TemporaryDirectory directory;
    more.insert(more.end(), common.begin(), common.end());
    return metrics(directory, more);
  };
  const auto one = run({"--ranks=1"});
  ASSERT_EQ(one.size(), 10u);
  for (const char* ranks : {"--ranks=2", "--ranks=3", "--ranks=4"}) {
    for (const char* strategy : {"--strategy=full_shard", "--strategy=no_shard"}) {
      const auto many = run({ranks, strategy, "--backend=local"});
      ASSERT_EQ(many.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        for (const char* key : {"loss", "grad_norm", "train_loss", "val_loss"}) {
          if (!one[i].contains(key)) continue;
          EXPECT_NEAR(many[i][key].get<double>() / one[i][key].get<double>(), 1, 2e-6)
              << ranks << " " << strategy << " line " << i << " " << key;
        }
      }
    }
  }
}

// The number of evaluations changes nothing, because they have a generator of their own.
TEST(Training, DoesNotDependOnEvaluations) {
  const TemporaryDirectory often, seldom;
  const auto a = metrics(often, {"--max_iters=6", "--eval_interval=2"});
  const auto b = metrics(seldom, {"--max_iters=6", "--eval_interval=100"});
  EXPECT_EQ(a.back(), b.back());
}

// A token of the built-in text is a character of one byte.
TEST(Training, EndsWithASampleOfTheLengthAskedFor) {
  const auto sample = [](const char* tokens) {
    const TemporaryDirectory directory;
    Process process(directory.file(""), {"train", "--ranks=2", "--max_iters=1", "--eval_iters=1",
                                         "--n_layer=1", "--n_embd=16", tokens});
    EXPECT_EQ(process.wait(60s), 0) << process.err();
    const std::string title = "\n--- a sample ---\n";
    const std::size_t found = process.out().find(title);
    return found == std::string::npos ? "none" : process.out().substr(found + title.size());
  };
  EXPECT_EQ(sample("--sample=7").size(), 7u + 1);  // and the end of a line
  EXPECT_EQ(sample("--sample=0"), "none");
}

TEST(Training, SavesWhatSampleReads) {
  const TemporaryDirectory directory;
  metrics(directory, {"--max_iters=4", "--eval_interval=2", "--ranks=2", "--out_dir=out"});
  const auto sample = [&] {
    Process process(directory.file(""),
                    {"sample", "--out_dir=out", "--start=The ", "--max_new_tokens=40"});
    EXPECT_EQ(process.wait(20s), 0) << process.err();
    return process.out();
  };
  const std::string first = sample();
  EXPECT_TRUE(first.starts_with("The ")) << first;
  EXPECT_EQ(first.find('\n', 44) != std::string::npos, true) << first;
  EXPECT_EQ(sample(), first);  // it is seeded
}

// With one rank or two, the weights are equal except for rounding, and write the same sample.
TEST(Training, LeavesTheSameModelAtEveryWorldSize) {
  const auto sample = [](const char* ranks) {
    const TemporaryDirectory directory;
    metrics(directory, {"--max_iters=3", ranks, "--out_dir=out"});
    Process process(directory.file(""), {"sample", "--out_dir=out", "--max_new_tokens=30"});
    EXPECT_EQ(process.wait(20s), 0) << process.err();
    return process.out();
  };
  const std::string one = sample("--ranks=1");
  EXPECT_EQ(sample("--ranks=2"), one);
  EXPECT_EQ(sample("--ranks=3"), one);
}

// These are the words of nanoGPT's README with fewer steps. The first losses are PyTorch's.
TEST(Training, RunsTheCommandOfNanoGPTsReadme) {
  if (std::getenv("NANOFSDP_SHAKESPEARE") == nullptr) {
    GTEST_SKIP() << "NANOFSDP_SHAKESPEARE does not name tiny Shakespeare";
  }
  const TemporaryDirectory directory;
  Process process(
      directory.file(""),
      {"train", "config/train_shakespeare_char.py", "--device=cpu", "--compile=False",
       "--eval_iters=20", "--log_interval=1", "--block_size=64", "--batch_size=12", "--n_layer=4",
       "--n_head=4", "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0",
       "--max_iters=10", "--eval_iters=1", "--sample=0"});
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  for (const char* line : {"iter 0: loss 4.1828,", "iter 1: loss 4.1578,", "iter 2: loss 4.1178,",
                           "iter 4: loss 4.0248,", "iter 9: loss 3.7778,"}) {
    EXPECT_NE(process.out().find(line), std::string::npos) << line << "\n" << process.out();
  }
}

// Runs the product with a small model and returns its output.
std::string printed(const TemporaryDirectory& directory, std::vector<std::string> words) {
  words.insert(words.end(), {"--n_layer=2", "--n_embd=32", "--n_head=2", "--block_size=16",
                             "--eval_iters=2", "--eval_interval=20"});
  Process process(directory.file(""), words);
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  return process.out();
}

// The trace has three steps of every rank in four lanes, and collectives with unit and bytes.
TEST(Trace, ShowsThreeStepsOfAllRanks) {
  for (const char* how : {"--backend=gloo", "--backend=local", "--layout=per_parameter"}) {
    const TemporaryDirectory directory;
    const std::string out =
        printed(directory, {"train", "--ranks=2", how, "--max_iters=20", "--trace=trace.json"});
    EXPECT_NE(out.find("% that the schedule allows"), std::string::npos) << out;
    const json trace = json::parse(read_file(directory.file("trace.json")));
    std::map<std::pair<int, int>, int> spans;  // number of spans for each rank and lane
    double start = 1e9;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      ++spans[{event["pid"], event["tid"]}];
      start = std::min(start, event["ts"].get<double>());
      EXPECT_GE(event["dur"], 0);
      EXPECT_LT(event["dur"], 60e6);
      const bool moves = event["tid"] == 1 || event["tid"] == 2;
      EXPECT_EQ(event.contains("args"), moves) << event;
    }
    EXPECT_EQ(start, 0);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ((spans[{rank, 0}]), 3 * (2 * 3 + 1));  // forward and backward of 3 units, optimizer
      EXPECT_EQ((spans[{rank, 1}]), 3 * (2 * 3 - 1));  // all-gathers
      EXPECT_EQ((spans[{rank, 2}]), 3 * 3);            // reduce-scatters
      EXPECT_GT((spans[{rank, 3}]), 0);                // waits
    }
  }
}

TEST(Trace, ThatCannotBeWrittenIsToldBeforeTraining) {
  const TemporaryDirectory directory;
  Process process(directory.file(""), {"train", "--ranks=2", "--trace=nowhere/trace.json"});
  EXPECT_EQ(process.wait(60s), 2);
  EXPECT_NE(process.err().find("--trace: expected a file that can be written"), std::string::npos);
  EXPECT_EQ(process.out().find("iter 0"), std::string::npos);
}

// Promises 3 and 4 for the user: the planned numbers equal the measured ones.
TEST(Explain, PlansWhatIsMeasured) {
  for (const char* strategy : {"no_shard", "shard_optimizer", "shard_gradients", "shard_grad_op",
                               "full_shard", "hybrid_shard", "hybrid_shard_optimizer"}) {
    const TemporaryDirectory directory;
    std::vector<std::string> words = {"train",
                                      "--ranks=4",
                                      "--max_iters=3",
                                      "--explain=True",
                                      "--param_dtype=bfloat16",
                                      "--batch_size=4",
                                      "--gradient_accumulation_steps=8",
                                      "--sample=0",
                                      std::string("--strategy=") + strategy};
    if (words.back().find("hybrid") != std::string::npos) words.push_back("--shard_size=2");
    const std::string out = printed(directory, words);
    EXPECT_NE(out.find("    rank 1: "), std::string::npos) << out;
    std::istringstream text(out.substr(out.rfind("memory of a rank")));
    int rows = 0;
    for (std::string line; std::getline(text, line) && !line.empty();) {
      if (line.find("between steps") != std::string::npos || line[0] != ' ') continue;
      std::istringstream words_of(line.substr(24));
      std::string planned, measured;
      words_of >> planned >> measured;
      EXPECT_EQ(planned, measured) << strategy << ": " << line;
      ++rows;
    }
    EXPECT_GE(rows, 9) << out;
  }
}

}  // namespace
}  // namespace nanofsdp::training_test
