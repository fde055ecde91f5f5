#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests `nanofsdp eval`: it prints the numbers that the run itself has printed.

namespace nanofsdp::eval_test {
namespace {

using nlohmann::json;
using testing::output_of;
using testing::read_file;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

// The last line of a metrics file.
json last_of(const TemporaryDirectory& directory, const std::string& name) {
  std::istringstream text(read_file(directory.file(name)));
  std::string last;
  for (std::string line; std::getline(text, line);) last = line;
  return json::parse(last);
}

// The run has more steps than eval's own --max_iters, and options that differ from eval's defaults.
Words training(const Words& more) {
  Words words = {"train",          "--max_iters=4",   "--eval_interval=4", "--eval_iters=3",
                 "--block_size=8", "--batch_size=5",  "--n_layer=2",       "--n_head=2",
                 "--n_embd=16",    "--out_dir=out",   "--threads=1",       "--seed=7",
                 "--dropout=0.2",  "--backend=local", "--metrics=m.jsonl"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Eval, SaysWhatTheRunSaidOnAnyNumberOfRanks) {
  for (const char* saved : {"--ranks=1", "--ranks=4"}) {
    const TemporaryDirectory d;
    const std::string out = output_of(d, training({saved}));
    const json said = last_of(d, "m.jsonl");
    ASSERT_TRUE(said.contains("val_loss"));
    const std::string line = out.substr(out.find("step 4: "), out.find(", val") - out.find("step"));
    for (const char* ranks : {"--ranks=1", "--ranks=2", "--ranks=3", "--ranks=4"}) {
      const Words words = {"eval", ranks, "--threads=1", "--metrics=e.jsonl", "--max_iters=1"};
      const std::string told = output_of(d, words);
      EXPECT_NE(told.find("resumed    out/checkpoint at iteration 4\n" + line), std::string::npos)
          << told;
      EXPECT_EQ(told.find("sample"), std::string::npos) << told;
      const json evaluated = last_of(d, "e.jsonl");
      EXPECT_EQ(evaluated["iter"], 4);
      for (const char* loss : {"train_loss", "val_loss"}) {
        const double a = evaluated[loss], b = said[loss];
        EXPECT_NEAR(a / b, 1, ranks == std::string(saved) ? 0 : 1e-6) << ranks;
      }
    }
  }
}

// No step is divided among the ranks of an evaluation, so they may be more than its rows.
TEST(Eval, RunsOnTheRanksOfTheRunAndOnMore) {
  const TemporaryDirectory d;
  output_of(d, training({"--ranks=4", "--batch_size=1", "--gradient_accumulation_steps=4"}));
  const double said = last_of(d, "m.jsonl")["val_loss"];
  for (const char* ranks : {"--ranks=1", "--ranks=4", "--ranks=7"}) {
    output_of(d, {"eval", ranks, "--threads=1", "--backend=local", "--metrics=e.jsonl"});
    const double told = last_of(d, "e.jsonl")["val_loss"];
    EXPECT_NEAR(told / said, 1, 1e-6) << ranks;
  }
}

// A typed option counts. A config counts too, and is the same for eval and for train.
TEST(Eval, TakesOtherBatchesIfAskedTo) {
  const TemporaryDirectory d;
  output_of(d, training({}));
  const json said = last_of(d, "m.jsonl");
  d.write("eval.py", "eval_iters = 7\nlearning_rate = 3e-4\neval_only = True\n");
  std::vector<json> others;
  for (const Words& more : {Words{"--eval_iters=7"}, {"eval.py"}, {"--seed=8"}}) {
    Words words = {"eval", "--out_dir=out", "--metrics=e.jsonl"};
    words.insert(words.end(), more.begin(), more.end());
    output_of(d, words);
    others.push_back(last_of(d, "e.jsonl"));
    EXPECT_NE(others.back()["val_loss"], said["val_loss"]) << more[0];
  }
  EXPECT_EQ(others[0], others[1]);
  EXPECT_NE(others[0], others[2]);
}

// Eval writes only its metrics, wherever the model comes from.
TEST(Eval, LeavesTheDirectoryAsItIs) {
  const TemporaryDirectory d;
  output_of(d, training({}));
  const auto files = [&] {
    std::string all;
    for (const auto& file : std::filesystem::recursive_directory_iterator(d.file("out"))) {
      all += file.path().string() + "\n";
      if (file.is_regular_file()) all += read_file(file.path().string());
    }
    return all;
  };
  const std::string before = files();
  output_of(d, {"eval"});
  EXPECT_NE(output_of(d, {"eval", "--eval_only=False"}, 2).find("--eval_only: "),
            std::string::npos);
  EXPECT_TRUE(files() == before);
  std::filesystem::remove_all(d.file("out"));
  EXPECT_NE(output_of(d, {"eval"}, 2).find("'out/checkpoint/manifest.json'"), std::string::npos);
  EXPECT_NE(output_of(d, {"eval", "--init_from=scratch"}, 2).find("--init_from"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(d.file("out")));
}

}  // namespace
}  // namespace nanofsdp::eval_test
