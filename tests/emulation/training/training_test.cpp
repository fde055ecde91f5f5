#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"

// The same command line on the CPU and on a GPU, which is emulated here: the same losses.

namespace nanofsdp::testing {
namespace {

using nlohmann::json;

/// Lines of the metrics of a small run that have a loss.
std::vector<json> train(std::vector<std::string> options) {
  const TemporaryDirectory directory;
  options.insert(options.begin(),
                 {"train", "--n_layer=2", "--n_head=2", "--n_embd=16", "--block_size=16",
                  "--batch_size=4", "--bias=True", "--dropout=0.2", "--max_iters=10",
                  "--eval_iters=1", "--warmup_iters=2", "--metrics=metrics.jsonl"});
  Process process(directory.file("."), options);
  process.wait_for_output("\nloss ");  // no need for the sample, which takes ten times as long
  std::istringstream text(read_file(directory.file("metrics.jsonl")));
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);) {
    const json parsed = json::parse(line);
    if (parsed.contains("loss")) lines.push_back(parsed);
  }
  return lines;
}

/// Twice what equivalent runs on CPUs may differ by in their first ten steps.
void expect_close(const std::vector<json>& got, const std::vector<json>& want) {
  ASSERT_EQ(got.size(), 10u);
  ASSERT_EQ(want.size(), 10u);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto relative = [&](const char* key) {
      return std::abs(got[i][key].get<double>() / want[i][key].get<double>() - 1);
    };
    EXPECT_LE(relative("loss"), 2e-6) << "step " << i;
    EXPECT_LE(relative("grad_norm"), 4e-6) << "step " << i;
  }
}

TEST(EmulatedGpu, LosesAsTheCpuDoes) {
  const auto cpu = train({"--device=cpu"});
  expect_close(train({"--device=cuda"}), cpu);
  expect_close(train({"--device=cuda", "--backend=local", "--ranks=2"}), cpu);
}

}  // namespace
}  // namespace nanofsdp::testing
