#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.h"

// How a training starts on a GPU, and what it tells of its times; the GPU is emulated.

namespace nanofsdp::testing {
namespace {

using namespace std::chrono_literals;

/// What a small run on the GPU printed, on stdout and stderr.
std::string printed(const TemporaryDirectory& directory, std::vector<std::string> options) {
  options.insert(options.begin(), {"train", "--device=cuda", "--n_layer=1", "--n_head=2",
                                   "--n_embd=16", "--block_size=16", "--batch_size=2",
                                   "--max_iters=3", "--eval_iters=1", "--sample=0"});
  Process process(directory.file("."), options);
  process.wait(60s);
  return process.out() + process.err();
}

// The driver serves no child of a process that has started it. The emulated NCCL connects threads
// alone, so processes come as far as that.
TEST(EmulatedGpu, ItsDriverIsStartedByRanksAndNotByTheirParent) {
  const TemporaryDirectory directory;
  const std::string said = printed(directory, {"--ranks=2", "--timeout=1"});
  EXPECT_EQ(said.find("initialization error"), std::string::npos) << said;
  EXPECT_NE(said.find("could not join its group"), std::string::npos) << said;
}

// The host has only issued the work when it notes the time.
TEST(EmulatedGpu, TellsTimesOfIssueAndNoOverlap) {
  const TemporaryDirectory directory;
  const std::string said =
      printed(directory, {"--ranks=2", "--backend=local", "--trace=trace.json"});
  EXPECT_NE(said.find("moved "), std::string::npos) << said;
  EXPECT_EQ(said.find("overlap"), std::string::npos) << said;
  const auto trace = nlohmann::json::parse(read_file(directory.file("trace.json")));
  int ranks = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] != "process_name") continue;
    EXPECT_TRUE(event["args"]["name"].get<std::string>().ends_with("issued the GPU's work"));
    ++ranks;
  }
  EXPECT_EQ(ranks, 2);
}

}  // namespace
}  // namespace nanofsdp::testing
