#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"

// Tests how the product starts the driver. The program and the CUDA runtime in it are real, and the
// driver is a stand-in (stand_in.cpp).

namespace nanofsdp::testing {
namespace {

using namespace std::chrono_literals;

/// A call of cuInit.
struct Start {
  pid_t process = 0;
  int result = 0;
};

struct Training {
  pid_t parent = 0;
  int exit_code = 0;
  std::string error;
  std::vector<Start> starts;
};

Training train(const std::string& version) {
  const TemporaryDirectory directory;
  const std::string log = directory.file("log");
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string folders = NANOFSDP_DRIVER_FOLDER + (before ? ":" + std::string(before) : "");
  Process process(
      directory.file("."), {"train", "--device=cuda", "--ranks=2"},
      {{"LD_LIBRARY_PATH", folders}, {"STAND_IN_LOG", log}, {"STAND_IN_VERSION", version}});
  Training run{.parent = process.pid()};
  run.exit_code = process.wait(60s);
  run.error = process.err();
  std::istringstream lines(read_file(log));
  for (Start start; lines >> start.process >> start.result;) run.starts.push_back(start);
  return run;
}

// The driver serves no child of a process that has started it. So the ranks must start it, and not
// the process that reads the options and forks. The message alone would not show this, because the
// runtime does not ask again for what it was told before the fork.
TEST(Driver, IsStartedByRanksAndNotByTheirParent) {
  const Training run = train("99000");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.error.find("got no CUDA-capable device is detected"), std::string::npos)
      << run.error;
  EXPECT_FALSE(run.starts.empty());
  for (const Start& start : run.starts) {
    EXPECT_NE(start.process, run.parent);
    EXPECT_EQ(start.result, 0);
  }
}

TEST(Driver, ThatIsTooOldIsNamedBeforeItIsStarted) {
  const Training run = train("11080");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.error.find("the CUDA driver is too old: expected one for CUDA "), std::string::npos)
      << run.error;
  EXPECT_NE(run.error.find("got 11.8; update it"), std::string::npos) << run.error;
  EXPECT_TRUE(run.starts.empty());
}

}  // namespace
}  // namespace nanofsdp::testing
