#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.h"

// Tests the start of a training on an emulated GPU, and the times that it reports.

namespace nanofsdp::testing {
namespace {

using namespace std::chrono_literals;

/// The output of a small run on the GPU, on stdout and stderr.
std::string printed(const TemporaryDirectory& directory, std::vector<std::string> options) {
  options.insert(options.begin(), {"train", "--device=cuda", "--n_layer=1", "--n_head=2",
                                   "--n_embd=16", "--block_size=16", "--batch_size=2",
                                   "--max_iters=3", "--eval_iters=1", "--sample=0"});
  Process process(directory.file("."), options);
  process.wait(60s);
  return process.out() + process.err();
}

// The driver serves no child of a process that has started it. The emulated NCCL connects only
// threads, so processes do not get beyond this point.
TEST(EmulatedGpu, ItsDriverIsStartedByRanksAndNotByTheirParent) {
  const TemporaryDirectory directory;
  const std::string said = printed(directory, {"--ranks=2", "--timeout=1"});
  EXPECT_EQ(said.find("initialization error"), std::string::npos) << said;
  EXPECT_NE(said.find("could not join its group"), std::string::npos) << said;
}

// The host notes the time at which it has issued the work.
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
