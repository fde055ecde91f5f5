#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests `--init_from=resume`.

namespace nanofsdp::resume_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;
using testing::Process;
using testing::read_file;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

const Words kSmall = {"train",           "--n_layer=2",    "--n_embd=32", "--n_head=2",
                      "--block_size=16", "--eval_iters=2", "--threads=1", "--learning_rate=1e-2"};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Result {
  int exit_code = 0;
  std::string out, err;
};

Result run(const TemporaryDirectory& directory, const Words& words) {
  Process process(directory.file(""), words);
  const int exit_code = process.wait(100s);
  return {exit_code, process.out(), process.err()};
}

std::string train(const TemporaryDirectory& directory, const Words& words) {
  const Result result = run(directory, kSmall + words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

// The lines of a metrics file from iteration `first` on, without times.
std::vector<json> metrics(const TemporaryDirectory& directory, const std::string& name,
                          std::int64_t first = 0) {
  std::vector<json> lines;
  std::istringstream text(read_file(directory.file(name)));
  for (std::string line; std::getline(text, line);) {
    json j = json::parse(line);
    for (const char* key :
         {"ms", "tokens_per_s", "mfu", "peak_bytes", "bytes_sent", "bytes_received"}) {
      j.erase(key);
    }
    if (j["iter"] >= first) lines.push_back(std::move(j));
  }
  return lines;
}

// All files in a directory, except the output of processes.
std::map<std::string, std::string> tree(const TemporaryDirectory& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory.file(""))) {
    const std::string path = entry.path().string();
    files[path] = entry.is_regular_file() ? read_file(path) : "";
  }
  files.erase(directory.file("stdout"));
  files.erase(directory.file("stderr"));
  return files;
}

// The law: the next 100 losses, norms and evaluations, and the model at the end, are those of a run
// that was never interrupted, to the bit, with dropout. This takes some seconds: twenty-one runs.
TEST(Resume, GoesOnBitForBit) {
  const Words settings[] = {
      {"--ranks=1"},
      {"--ranks=2", "--backend=gloo"},
      {"--ranks=3", "--strategy=shard_gradients", "--gradient_accumulation_steps=2"},
      {"--ranks=2", "--strategy=shard_optimizer", "--param_dtype=bfloat16", "--bias=True"},
      {"--ranks=4", "--strategy=hybrid_shard", "--shard_size=2", "--init_order=fsdp"},
      {"--ranks=4", "--strategy=hybrid_shard_optimizer", "--shard_size=2"},
      {"--ranks=2", "--strategy=no_shard", "--eval_interval=7", "--dataset=tales"}};
  for (const Words& setting : settings) {
    const TemporaryDirectory d;
    const Words common =
        Words{"--dropout=0.2", "--eval_interval=20", "--sample=0", "--backend=local"} + setting;
    train(d, common + Words{"--max_iters=60", "--out_dir=a", "--metrics=a.jsonl"});
    train(d, common + Words{"--max_iters=20", "--out_dir=b"});
    train(d, common +
                 Words{"--max_iters=60", "--out_dir=b", "--metrics=b.jsonl", "--init_from=resume"});
    std::vector<json> resumed = metrics(d, "b.jsonl"), whole = metrics(d, "a.jsonl", 20);
    // The resumed run evaluates where it stopped, and the other run need not.
    if (whole[0].contains("loss")) resumed.erase(resumed.begin());
    EXPECT_EQ(std::ranges::count_if(whole, [](const json& j) { return j.contains("loss"); }), 40);
    EXPECT_EQ(resumed, whole) << setting.back();
    EXPECT_TRUE(read_file(d.file("a/model.safetensors")) ==
                read_file(d.file("b/model.safetensors")));
    for (const auto& file : fs::directory_iterator(d.file("a/checkpoint"))) {
      const std::string name = file.path().filename().string();
      if (name == "manifest.json") continue;  // its options differ
      EXPECT_TRUE(read_file(file.path().string()) == read_file(d.file("b/checkpoint/" + name)));
    }
  }
}

// At another number of ranks only the order of sums differs.
TEST(Resume, GoesOnAtAnyNumberOfRanks) {
  const TemporaryDirectory d;
  const Words common = {"--dropout=0.2", "--eval_interval=10", "--sample=0", "--backend=local"};
  train(d, common + Words{"--ranks=4", "--max_iters=10", "--out_dir=o"});
  std::vector<json> expected;
  for (const char* ranks : {"--ranks=4", "--ranks=1", "--ranks=2", "--ranks=3", "--ranks=8"}) {
    fs::remove_all(d.file("p"));
    fs::copy(d.file("o"), d.file("p"), fs::copy_options::recursive);
    train(d, common + Words{ranks, "--max_iters=30", "--out_dir=p", "--metrics=m.jsonl",
                            "--init_from=resume"});
    const std::vector<json> lines = metrics(d, "m.jsonl");
    fs::remove(d.file("m.jsonl"));
    if (expected.empty()) expected = lines;
    ASSERT_EQ(lines.size(), expected.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const char* key : {"loss", "grad_norm", "train_loss", "val_loss"}) {
        if (!lines[i].contains(key)) continue;
        EXPECT_NEAR(lines[i][key].get<double>() / expected[i][key].get<double>(), 1, 5e-5)
            << ranks << " line " << i << " " << key;
      }
    }
    EXPECT_NEAR(lines[1]["loss"].get<double>() / expected[1]["loss"].get<double>(), 1, 1e-6);
  }
}

// As in nanoGPT, the sizes of the model come from the checkpoint, and all other options from the
// command line.
TEST(Resume, TakesTheModelFromTheCheckpoint) {
  const TemporaryDirectory d;
  train(d, {"--max_iters=2", "--out_dir=o"});
  const Result result = run(d, {"train", "--init_from=resume", "--out_dir=o", "--max_iters=3",
                                "--eval_iters=1", "--n_layer=5", "--n_head=2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* line :
       {"note: --n_layer=5 does nothing here: the checkpoint has 2\n",
        ": 2 layers, 2 heads, 32 wide, 16 tokens of context",
        "\nresumed    o/checkpoint at iteration 2\n", "\nstep 2: ", "\nstep 3: "}) {
    EXPECT_NE(result.out.find(line), std::string::npos) << line << result.out;
  }
  EXPECT_EQ(result.out.find("--n_head"), std::string::npos);
}

TEST(Resume, AddsToTheMetrics) {
  const TemporaryDirectory d;
  const Words common = {"--eval_interval=2", "--out_dir=o", "--metrics=m.jsonl"};
  train(d, common + Words{"--max_iters=2"});
  const std::string before = read_file(d.file("m.jsonl"));
  train(d, common + Words{"--max_iters=4", "--init_from=resume"});
  EXPECT_TRUE(read_file(d.file("m.jsonl")).starts_with(before));
  std::vector<std::int64_t> steps;
  for (const json& line : metrics(d, "m.jsonl")) {
    if (line.contains("loss")) steps.push_back(line["iter"]);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

// One run is at its end already, and the other one is traced.
TEST(Resume, OfAFinishedRunEvaluates) {
  const TemporaryDirectory d;
  train(d, {"--max_iters=2", "--out_dir=o"});
  const auto before = tree(d);
  const std::string out = train(d, {"--max_iters=2", "--out_dir=o", "--init_from=resume"});
  EXPECT_NE(out.find("step 2: "), std::string::npos);
  EXPECT_EQ(out.find("saved"), std::string::npos);  // the checkpoint is there already
  EXPECT_NE(out.find("--- a sample ---"), std::string::npos);
  EXPECT_TRUE(tree(d) == before);
  train(d, {"--max_iters=20", "--out_dir=o", "--init_from=resume", "--trace=t.json"});
  EXPECT_GT(json::parse(read_file(d.file("t.json")))["traceEvents"].size(), 10u);
}

// nanoGPT's rule: a run saves at every evaluation, or if the validation loss has fallen. The next
// run remembers the best loss so far.
TEST(Resume, SavesAlwaysOrWhatIsBetter) {
  const TemporaryDirectory d;
  const Words wild = {"--eval_interval=1", "--out_dir=o", "--learning_rate=0.3", "--warmup_iters=5",
                      "--max_iters=12"};
  const std::regex evaluation(R"(step (\d+): .*val loss ([\d.]+))");
  double best = 1e9;
  int saved = 0, evaluations = 0;
  const auto follow = [&](const std::string& out, bool always) {
    std::istringstream lines(out);
    std::smatch match;
    bool due = false;
    for (std::string line; std::getline(lines, line);) {
      if (line == "saved o/checkpoint") {
        EXPECT_TRUE(std::exchange(due, false)) << out;
        ++saved;
      }
      if (!std::regex_match(line, match, evaluation)) continue;
      EXPECT_FALSE(due) << line << out;
      due = evaluations++ > 0 && (always || std::stod(match[2]) < best);
      best = std::min(best, std::stod(match[2]));
    }
  };
  follow(train(d, wild), true);
  EXPECT_EQ(saved, 12);
  best = 1e9, saved = 0, evaluations = 0;
  fs::remove_all(d.file("o"));
  follow(train(d, wild + Words{"--always_save_checkpoint=False"}), false);
  EXPECT_GT(saved, 2);
  EXPECT_LT(saved, 10);
  best = 1e9, saved = 0, evaluations = 0;
  follow(train(d, wild + Words{"--max_iters=5"}), true);
  evaluations = 0;  // the last loss was not the best, and the checkpoint says so
  follow(train(d, wild + Words{"--always_save_checkpoint=False", "--init_from=resume"}), false);
  EXPECT_GT(saved, 5);
  EXPECT_LT(saved, 10);
}

// ---- refusals, with one line that says what and why; nothing changes

TEST(ResumeRefusal, SaysWhatIsWrong) {
  const TemporaryDirectory d;
  const std::string text(300, 'x');
  d.write("x.txt", text + "yz");
  const Words model = {"--max_iters=2", "--out_dir=o", "--ranks=2"};
  train(d, model);
  train(d, model + Words{"--init_from=resume", "--max_iters=4"});
  d.write("checkpoint", "x");
  train(d, {"--max_iters=1", "--out_dir=p", "--text=x.txt"});
  d.write("as_many.txt", text + "yw");
  const struct {
    Words options;
    Words words;
  } cases[] = {
      {{"--init_from=resume"}, {"--init_from", "--out_dir=DIR"}},
      {{"--init_from=resume", "--out_dir=none"}, {"'none/checkpoint/manifest.json'", "no such"}},
      {{"--init_from=resume", "--out_dir=."}, {"checkpoint", "no such file"}},
      {{"--init_from=resume", "--out_dir=o", "--text=x.txt"},
       {"checkpoint 'o/checkpoint'", "characters of text 'x.txt'"}},
      {{"--init_from=resume", "--out_dir=p", "--text=as_many.txt"},
       {"checkpoint 'p/checkpoint'", "characters of text 'as_many.txt'"}},
      {{"--init_from=resume", "--out_dir=o", "--max_iters=3"},
       {"checkpoint 'o/checkpoint'", "--max_iters=3", "iteration 4"}},
      {{"--init_from=resume", "--out_dir=o", "--ranks=13"}, {"--ranks=13"}},
  };
  for (const auto& [options, words] : cases) {
    for (const char* ranks : {"--ranks=1", "--ranks=2"}) {
      const auto before = tree(d);
      const Result result = run(d, Words{"train", ranks, "--metrics=m"} + options);
      EXPECT_EQ(result.exit_code, 2) << result.err;
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
      for (const std::string& word : words) {
        EXPECT_NE(result.err.find(word), std::string::npos) << word << " in " << result.err;
      }
      EXPECT_EQ(result.out, "");
      EXPECT_TRUE(tree(d) == before) << result.err;
    }
  }
}

TEST(ResumeRefusal, OfADamagedFileTouchesNothing) {
  const TemporaryDirectory d;
  train(d, {"--max_iters=2", "--out_dir=o", "--ranks=2", "--eval_interval=1", "--metrics=m"});
  for (const char* name : {"rank_0_of_2.safetensors", "rank_1_of_2.safetensors"}) {
    const std::string path = d.file(std::string("o/checkpoint/") + name), good = read_file(path);
    std::string bad = good;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 16);
    for (const std::string& bytes : {good.substr(0, good.size() / 2), std::string(), bad}) {
      std::ofstream(path, std::ios::binary) << bytes;
      const auto before = tree(d);
      const Result result = run(d, kSmall + Words{"--init_from=resume", "--out_dir=o", "--ranks=3",
                                                  "--max_iters=4", "--metrics=m"});
      EXPECT_EQ(result.exit_code, 2) << result.err;
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
      EXPECT_NE(result.err.find(name), std::string::npos) << result.err;
      EXPECT_NE(result.err.find("'o/checkpoint.previous'"), std::string::npos) << result.err;
      EXPECT_TRUE(tree(d) == before) << result.err;
    }
    std::ofstream(path, std::ios::binary) << good;
  }
  train(d, {"--init_from=resume", "--out_dir=o", "--max_iters=3"});
}

}  // namespace
}  // namespace nanofsdp::resume_test
