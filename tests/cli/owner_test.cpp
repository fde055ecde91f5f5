#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Several runs use one folder: at the same time, one after the other, and beside files of others.

namespace nanofsdp::owner_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::output_of;
using testing::Process;
using testing::read_file;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

Words training(const Words& more) {
  Words words = {"train",          "--n_layer=1",    "--n_embd=16", "--n_head=2", "--block_size=8",
                 "--batch_size=4", "--eval_iters=1", "--threads=1", "--sample=0", "--out_dir=o"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// A run holds its folder also while it is stopped. When it is killed, the folder is free at once,
// and the files that it saved are good.
TEST(Owner, OfAFolderIsOneRun) {
  for (const char* ranks : {"--ranks=1", "--ranks=2"}) {
    const TemporaryDirectory d, e;
    Process first(d.file(""), training({ranks, "--max_iters=1000000", "--eval_interval=2"}));
    first.wait_for_output("saved o/model.safetensors");
    const std::vector<pid_t> rank_processes = first.children();
    kill(first.pid(), SIGSTOP);
    for (const pid_t rank : rank_processes) kill(rank, SIGSTOP);
    const auto in_d = [&](const Words& words, int exit_code) {
      Process process(e.file(""), words);
      EXPECT_EQ(process.wait(60s), exit_code) << process.err();
      return process.err();
    };
    const std::string o = "--out_dir=" + d.file("o");
    for (const char* from : {"--init_from=scratch", "--init_from=resume"}) {
      const std::string err = in_d(training({o, from, "--max_iters=1000000"}), 2);
      EXPECT_EQ(count(err, "\n"), 1) << err;
      const auto found = err.find("that of process ");
      ASSERT_NE(found, err.npos) << err;
      const pid_t owner = std::stoi(err.substr(found + 16));
      EXPECT_TRUE(owner == first.pid() || std::ranges::count(rank_processes, owner) == 1) << err;
    }
    in_d({"sample", o, "--max_new_tokens=2"}, 0);  // these commands only read
    in_d({"eval", o}, 0);
    in_d({"export", o, "--to=shards"}, 0);
    kill(first.pid(), SIGKILL);
    first.wait(10s);
    for (const pid_t rank : rank_processes) {
      for (int i = 0; i < 1000 && kill(rank, 0) == 0; ++i) std::this_thread::sleep_for(5ms);
    }
    in_d(training({o, "--init_from=resume", "--max_iters=1000000", "--eval_only=True"}), 0);
    in_d(training({o, "--max_iters=2"}), 0);
  }
}

std::vector<std::string> saved_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const fs::path& file : fs::directory_iterator(directory)) {
    const std::string name = file.filename();
    if (name != "run.lock" && !name.starts_with("set_aside")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

// A user types nanoGPT's commands twice: no file is lost, and the summary says where the old files
// are.
TEST(Owner, FromScratchSetsAsideWhatAnotherRunSaved) {
  const TemporaryDirectory d;
  std::vector<std::string> weights, names;
  for (int n = 0; n < 3; ++n) {
    const std::string out = output_of(d, training({"--max_iters=3", "--seed=" + std::to_string(n),
                                                   "--init_from=scratch", "--eval_interval=1"}));
    const std::string aside = "o/set_aside." + std::to_string(n);
    EXPECT_EQ(out.find("what another run saved here: " + aside) != out.npos, n > 0) << out;
    if (n > 0) {
      EXPECT_EQ(saved_in(d.file(aside)), names);
    }
    names = saved_in(d.file("o"));
    EXPECT_EQ(names.size(), 4u);  // two checkpoints, weights, a picture
    weights.push_back(read_file(d.file("o/model.safetensors")));
  }
  EXPECT_NE(weights[0], weights[1]);
  for (const int n : {0, 1}) {
    const std::string aside = "o/set_aside." + std::to_string(n + 1);
    EXPECT_TRUE(read_file(d.file(aside + "/model.safetensors")) == weights[n]);
    output_of(d, training({"--out_dir=" + aside, "--init_from=resume", "--max_iters=4"}));
  }
  output_of(d, training({"--init_from=resume", "--max_iters=4"}));
  EXPECT_FALSE(fs::exists(d.file("o/set_aside.3")));
}

TEST(Owner, SaysOnceThatFilesOfOthersAreLeftAlone) {
  const TemporaryDirectory d;
  output_of(d, training({"--max_iters=2"}));
  d.write("o/checkpoint/notes.txt", "of mine");
  const std::string out = output_of(
      d, training({"--init_from=resume", "--max_iters=8", "--eval_interval=1", "--ranks=2"}));
  EXPECT_EQ(count(out, "saved files of others in o/set_aside.1\n"), 1) << out;
  EXPECT_EQ(count(out, "set_aside"), 1) << out;
  EXPECT_EQ(count(out, "saved o/checkpoint"), 6) << out;
  EXPECT_EQ(read_file(d.file("o/set_aside.1/checkpoint.previous/notes.txt")), "of mine");
}

// A killed run or a full disk may cut the file anywhere.
TEST(Owner, OfMetricsGoesOnInLinesOfJson) {
  const TemporaryDirectory d;
  output_of(d, training({"--max_iters=2", "--metrics=m"}));
  const std::string whole = read_file(d.file("m"));
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (const std::size_t size : {whole.size(), whole.size() - 1, last + 1, last, last - 1}) {
    d.write("m", whole.substr(0, size));
    output_of(d, training({"--max_iters=2", "--metrics=m", "--init_from=resume"}));
    std::istringstream text(read_file(d.file("m")));
    int lines = 0;
    for (std::string line; std::getline(text, line); ++lines) {
      EXPECT_TRUE(nlohmann::json::accept(line)) << size << ": " << line;
    }
    EXPECT_EQ(lines, count(whole.substr(0, size), "\n") + 1);
  }
}

}  // namespace
}  // namespace nanofsdp::owner_test
