#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launch/socket.h"
#include "support/process.h"
#include "support/temporary_directory.h"

// Tests ranks that a launcher has started on this machine. Each rank is a process that reads its
// number from the environment, ends with its own exit code, and reports on its own stderr.

namespace nanofsdp::joined_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::read_file;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

const Words kEndless = {
    "train",           "--n_layer=2",         "--n_embd=32",    "--n_head=2",
    "--block_size=16", "--max_iters=1000000", "--eval_iters=1", "--eval_interval=1000000",
    "--log_interval=1"};

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Joined : public ::testing::Test {
 protected:
  Process& start(int rank, int size, const Words& args, const testing::Variables& more = {}) {
    testing::Variables variables = {{"RANK", std::to_string(rank)},
                                    {"WORLD_SIZE", std::to_string(size)},
                                    {"LOCAL_WORLD_SIZE", std::to_string(size)},
                                    {"MASTER_PORT", port_},
                                    {"NANOFSDP_TOKEN", "sesame"}};
    variables.insert(variables.end(), more.begin(), more.end());
    homes_.push_back(std::make_unique<TemporaryDirectory>());
    ranks_.push_back(std::make_unique<Process>(homes_.back()->file(""), args, variables));
    return *ranks_.back();
  }

  // Starts ranks 0 to size - 1 and waits until they train.
  void start_training(int size, const Words& options = {}) {
    for (int rank = 0; rank < size; ++rank) start(rank, size, kEndless + options);
    ranks_[0]->wait_for_output("iter 3:");
  }

  // Expects one message on stderr with this text and this exit code, in time.
  void expect_end(int rank, int code, const std::string& says) {
    Process& process = *ranks_[rank];
    EXPECT_EQ(process.wait(20s), code) << rank;
    const std::string err = process.err();
    EXPECT_TRUE(err.starts_with("nanofsdp: ")) << err;
    EXPECT_EQ(err.rfind("nanofsdp: "), 0u) << err;
    EXPECT_NE(err.find(says), std::string::npos) << err;
  }

  std::string file(int rank, const std::string& name) const {
    return read_file(homes_[rank]->file(name));
  }

  std::vector<std::unique_ptr<TemporaryDirectory>> homes_;
  std::vector<std::unique_ptr<Process>> ranks_;

 private:
  // A port that was free a moment ago.
  std::string port_ = std::to_string(launch::listen_on("127.0.0.1", 0).local_port());
};

TEST_F(Joined, TrainsWhatRanksStartedHereTrain) {
  const Words args = {"train",           "--n_layer=2",   "--n_embd=32",    "--n_head=2",
                      "--block_size=16", "--max_iters=4", "--eval_iters=2", "--out_dir=out"};
  start(0, 2, args);
  start(1, 2, args);
  const TemporaryDirectory directory;
  Process together(directory.file(""), args + Words{"--ranks=2"});
  EXPECT_EQ(together.wait(60s), 0) << together.err();
  for (const auto& rank : ranks_) EXPECT_EQ(rank->wait(60s), 0) << rank->err();
  const std::string weights = read_file(directory.file("out/model.safetensors"));
  EXPECT_FALSE(weights.empty());
  EXPECT_TRUE(file(0, "out/model.safetensors") == weights);
  // Each rank has a directory of its own, so no directory can hold the shards of both.
  EXPECT_NE(ranks_[0]->out().find("saved no out/checkpoint, for the ranks do not all see"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(homes_[0]->file("out/checkpoint.new")));
  EXPECT_EQ(ranks_[1]->out(), "");
}

TEST_F(Joined, WritesWhatOneRankWrites) {
  const TemporaryDirectory directory;
  const Words tiny = {"train",         "--n_layer=1",    "--n_embd=16",  "--n_head=2",
                      "--max_iters=2", "--eval_iters=1", "--out_dir=out"};
  Process training(directory.file(""), tiny);
  EXPECT_EQ(training.wait(60s), 0) << training.err();
  const Words args = {"sample", "--out_dir=" + directory.file("out"), "--max_new_tokens=100"};
  start(0, 2, args);
  start(1, 2, args);
  Process alone(directory.file(""), args);
  EXPECT_EQ(alone.wait(60s), 0) << alone.err();
  for (const auto& rank : ranks_) EXPECT_EQ(rank->wait(60s), 0) << rank->err();
  EXPECT_EQ(ranks_[0]->out(), alone.out());
  EXPECT_EQ(ranks_[1]->out(), "");
  ranks_.clear();
  start(0, 2, args);
  start(1, 2, args + Words{"--seed=2"});
  expect_end(0, 1, "ranks disagree on options");
  ranks_.clear();
  start(0, 2, args);
  start(1, 2, args + Words{"--start=A"});
  expect_end(0, 1, "ranks disagree on the prompt or the model");
}

TEST_F(Joined, HearsOnEveryRankWhichOneWasKilled) {
  for (const int victim : {0, 2}) {
    start_training(3);
    kill(ranks_[victim]->pid(), SIGKILL);
    EXPECT_EQ(ranks_[victim]->wait(10s), 128 + SIGKILL);
    const std::string says =
        "gave up: rank " + std::to_string(victim) + " was lost: its connection";
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != victim) expect_end(rank, 1, says);
    }
    ranks_.clear();
  }
}

// The test waits for seconds, because it tests a timeout.
TEST_F(Joined, WaitsForAStoppedRankAsLongAsTimeoutSays) {
  start_training(2, {"--timeout=1"});
  kill(ranks_[1]->pid(), SIGSTOP);
  expect_end(0, 1, "waited 1000 ms in vain for rank 1");
}

// A person may start the other ranks, so this may take longer than a message. The test waits for
// seconds.
TEST_F(Joined, WaitsLongerForARankToStartThanForAMessage) {
  const Words args = kEndless + Words{"--max_iters=1", "--sample=0", "--timeout=2"};
  start(0, 2, args);
  std::this_thread::sleep_for(3s);
  start(1, 2, args);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->wait(60s), 0) << rank->err();
}

TEST_F(Joined, HearsWhatIsWrongWithTheOptionsOfOneRank) {
  start(0, 2, kEndless);
  start(1, 2, kEndless + Words{"--n_layers=3"});
  expect_end(1, 2, "unknown option --n_layers");
  expect_end(0, 1, "rank 1 failed: ");
  EXPECT_NE(ranks_[0]->err().find("--n_layers"), std::string::npos) << ranks_[0]->err();
}

TEST_F(Joined, HearsWhatIsWrongWithTheOptionsOfRankZero) {
  start(0, 2, kEndless + Words{"--n_layers=3"});
  start(1, 2, kEndless);
  expect_end(0, 2, "unknown option --n_layers");
  expect_end(1, 1, "rank 0 failed: ");
}

TEST_F(Joined, LeavesTheNumberOfRanksToTheLauncher) {
  start(0, 2, kEndless);
  start(1, 2, kEndless + Words{"--ranks=3"});
  expect_end(1, 2, "expected 2 processes");
  expect_end(0, 1, "rank 1 failed: --ranks, --backend: expected 2 processes");
}

TEST_F(Joined, RefusesHalfAnEnvironment) {
  start(0, 2, kEndless, {{"NANOFSDP_TOKEN", ""}});
  expect_end(0, 2, "environment variable NANOFSDP_TOKEN: expected a word");
  start(0, 2, kEndless, {{"RANK", "two"}});
  expect_end(1, 2, "environment variable RANK: expected a number from 0 to 1, got 'two'");
}

}  // namespace
}  // namespace nanofsdp::joined_test
