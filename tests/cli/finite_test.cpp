#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests a training that diverges: one line, exit code 1, and the earlier checkpoint stays.

namespace nanofsdp::finite_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

struct Result {
  int exit_code = 0;
  std::string out, err;
};

Result train(const TemporaryDirectory& directory, const Words& more) {
  Words words = {
      "train",          "--ranks=3",         "--threads=1",      "--n_layer=2",     "--n_embd=32",
      "--n_head=2",     "--block_size=16",   "--eval_iters=2",   "--sample=0",      "--out_dir=out",
      "--batch_size=6", "--eval_interval=4", "--warmup_iters=0", "--log_interval=1"};
  words.insert(words.end(), more.begin(), more.end());
  Process process(directory.file(""), words);
  const int exit_code = process.wait(100s);
  return {exit_code, process.out(), process.err()};
}

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path()] = testing::read_file(entry.path());
  }
  return files;
}

// The number of points in the first line of a picture: at each, the line has two corners.
std::ptrdiff_t steps_drawn(const std::string& svg) {
  const std::size_t begin = svg.find("points=\"") + 8;
  return std::count(svg.begin() + static_cast<std::ptrdiff_t>(begin),
                    svg.begin() + static_cast<std::ptrdiff_t>(svg.find('"', begin)), ' ') /
         2;
}

TEST(Explosion, IsOneLineAndKeepsWhatWasSaved) {
  const TemporaryDirectory directory;
  const Result good = train(directory, {"--max_iters=4"});
  ASSERT_EQ(good.exit_code, 0) << good.err;
  const auto before = files_of(directory.file("out"));
  // The steps are too large, and no evaluation comes in between.
  const Result bad = train(directory, {"--init_from=resume", "--max_iters=1000",
                                       "--eval_interval=1000", "--learning_rate=1e9"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_EQ(std::ranges::count(bad.err, '\n'), 1) << bad.err;
  for (const char* word : {"nanofsdp: training stopped at iteration ", "loss ", "gradient norm ",
                           "the gradient of transformer.h.1 is the first", "--learning_rate",
                           "'out/checkpoint' is still the checkpoint of iteration 4"}) {
    EXPECT_NE(bad.err.find(word), std::string::npos) << word << " in: " << bad.err;
  }
  EXPECT_EQ(bad.out.find(" nan,"), std::string::npos) << bad.out;
  auto after = files_of(directory.file("out"));
  // Only the picture is another: it shows the resumed steps until the one that went wrong.
  const std::string picture = directory.file("out/run.svg");
  const auto steps = std::stol(bad.err.substr(bad.err.find("iteration ") + 10)) - 4;
  EXPECT_EQ(steps_drawn(after.at(picture)), steps);
  after[picture] = before.at(picture);
  EXPECT_EQ(after, before);
  const Result resumed = train(directory, {"--init_from=resume", "--max_iters=8"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("step 8: "), std::string::npos) << resumed.out;
}

}  // namespace
}  // namespace nanofsdp::finite_test
