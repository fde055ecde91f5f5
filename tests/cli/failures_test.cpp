#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests mistakes of a user, and the death of a rank: one line that says what is wrong and what to
// do, a non-zero exit code soon, and no files left behind.

namespace nanofsdp::failures_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;

// The line on stderr of a command that is refused.
std::string refusal(const TemporaryDirectory& directory, const std::vector<std::string>& args) {
  Process process(directory.file(""), args);
  EXPECT_EQ(process.wait(10s), 2);
  const std::string err = process.err();
  EXPECT_EQ(std::ranges::count(err, '\n'), 1) << err;
  EXPECT_TRUE(err.starts_with("nanofsdp: ")) << err;
  return err;
}

std::string write_text(const TemporaryDirectory& directory, const std::string& text) {
  return directory.write("text.txt", text);
}

void expect_words(const std::string& line, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(line.find(word), std::string::npos) << line;
}

TEST(Refusal, OfAnUnknownOptionNamesTheNearest) {
  const TemporaryDirectory directory;
  expect_words(refusal(directory, {"train", "--n_layers=3"}), {"--n_layers", "--n_layer"});
}

TEST(Refusal, OfAnUnknownCommandNamesTheCommands) {
  const TemporaryDirectory directory;
  expect_words(refusal(directory, {"trian"}), {"'trian'", "train", "sample"});
}

TEST(Refusal, OfContradictoryOptionsNamesBoth) {
  const TemporaryDirectory directory;
  expect_words(refusal(directory, {"train", "--n_embd=100", "--n_head=3"}), {"n_embd", "n_head"});
}

TEST(Refusal, OfAMissingTextNamesThePath) {
  const TemporaryDirectory directory;
  expect_words(refusal(directory, {"train", "--text=nowhere.txt"}), {"nowhere.txt"});
}

TEST(Refusal, OfAnEmptyTextSaysSo) {
  const TemporaryDirectory directory;
  expect_words(refusal(directory, {"train", "--text=" + write_text(directory, "")}),
               {"text.txt", "empty"});
}

TEST(Refusal, OfATextShorterThanABlockSaysHowMuchIsNeeded) {
  const TemporaryDirectory directory;
  expect_words(refusal(directory, {"train", "--text=" + write_text(directory, "to be or not")}),
               {"text.txt", "block_size"});
}

TEST(Refusal, OfFewerRowsThanRanksNamesTheNumbers) {
  const TemporaryDirectory directory;
  expect_words(refusal(directory, {"train", "--ranks=4", "--batch_size=3"}), {"3", "4"});
}

TEST(Refusal, OfADirectoryThatCannotBeWrittenComesBeforeTraining) {
  const TemporaryDirectory directory;
  const std::string file = write_text(directory, "a file, not a directory");
  expect_words(refusal(directory, {"train", "--out_dir=" + file + "/out"}), {"--out_dir"});
}

TEST(Refusal, OfSamplingWithoutAModelSaysWhereItLooked) {
  const TemporaryDirectory directory;
  expect_words(refusal(directory, {"sample", "--out_dir=none"}), {"none/model.safetensors"});
}

// The number of directories that a run has made and not removed.
std::size_t directories_in(const TemporaryDirectory& directory) {
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.file(""))) {
    n += entry.is_directory();
  }
  return n;
}

bool exists(pid_t pid) { return kill(pid, 0) == 0; }

class KilledRank : public ::testing::TestWithParam<int> {};

TEST_P(KilledRank, EndsEveryRankWithOneMessageAndLeavesNothing) {
  const TemporaryDirectory directory;
  Process process(directory.file(""),
                  {"train", "--ranks=3", "--max_iters=1000000", "--eval_interval=1000000",
                   "--eval_iters=1", "--log_interval=1"});
  process.wait_for_output("iter 3:");
  std::vector<pid_t> ranks = process.children();
  ASSERT_EQ(ranks.size(), 3u);
  std::ranges::sort(ranks);  // the order in which they were started
  kill(ranks[GetParam()], SIGKILL);
  EXPECT_NE(process.wait(10s), 0);
  for (const pid_t rank : ranks) EXPECT_FALSE(exists(rank)) << rank;
  EXPECT_EQ(directories_in(directory), 0u);
  const std::string err = process.err();
  EXPECT_EQ(std::ranges::count(err, '\n'), 1) << err;
  expect_words(err, {"rank " + std::to_string(GetParam()), "SIGKILL"});
}

INSTANTIATE_TEST_SUITE_P(Rank, KilledRank, ::testing::Values(0, 1, 2));

TEST(Interrupt, EndsEveryRankWith130AndLeavesNothing) {
  const TemporaryDirectory directory;
  Process process(directory.file(""),
                  {"train", "--ranks=2", "--max_iters=1000000", "--eval_interval=1000000",
                   "--eval_iters=1", "--log_interval=1"});
  process.wait_for_output("iter 3:");
  const std::vector<pid_t> ranks = process.children();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(10s), 130);
  EXPECT_EQ(process.err(), "");  // no message: the user pressed Ctrl-C
  for (const pid_t rank : ranks) EXPECT_FALSE(exists(rank)) << rank;
  EXPECT_EQ(directories_in(directory), 0u);
}

}  // namespace
}  // namespace nanofsdp::failures_test
