#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/process.h"

// The same command line on the CPU and on a GPU, which is emulated here: the same losses.

namespace nanofsdp::testing {
namespace {

using nlohmann::json;

/// What a small run leaves behind.
struct Trained {
  std::vector<json> lines;  // of the metrics, those that have a loss
  std::string out;
  std::string weights;  // the file
};

Trained train(std::vector<std::string> options) {
  const TemporaryDirectory directory;
  options.insert(
      options.begin(),
      {"train", "--n_layer=2", "--n_head=2", "--n_embd=16", "--block_size=16", "--batch_size=4",
       "--bias=True", "--dropout=0.2", "--max_iters=10", "--eval_iters=1", "--warmup_iters=2",
       "--metrics=metrics.jsonl", "--out_dir=out", "--explain=True", "--sample=0"});
  Process process(directory.file("."), options);
  EXPECT_EQ(process.wait(std::chrono::seconds(60)), 0) << process.err();
  Trained trained{.out = process.out(),
                  .weights = read_file(directory.file("out/model.safetensors"))};
  std::istringstream text(read_file(directory.file("metrics.jsonl")));
  for (std::string line; std::getline(text, line);) {
    const json parsed = json::parse(line);
    if (parsed.contains("loss")) trained.lines.push_back(parsed);
  }
  return trained;
}

void expect_close(const Trained& got, const Trained& want, double of_loss, double of_norm) {
  ASSERT_EQ(got.lines.size(), 10u);
  ASSERT_EQ(want.lines.size(), 10u);
  for (std::size_t i = 0; i < got.lines.size(); ++i) {
    const auto relative = [&](const char* key) {
      return std::abs(got.lines[i][key].get<double>() / want.lines[i][key].get<double>() - 1);
    };
    EXPECT_LE(relative("loss"), of_loss) << "step " << i;
    EXPECT_LE(relative("grad_norm"), of_norm) << "step " << i;
  }
}

/// Of the numbers of a safetensors file, those that bfloat16 could hold.
double share_of_rounded(const std::string& file) {
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  const std::string_view data = std::string_view(file).substr(sizeof header + header);
  std::vector<std::uint32_t> bits(data.size() / 4);
  std::memcpy(bits.data(), data.data(), data.size());
  const auto rounded = std::ranges::count_if(bits, [](auto x) { return (x & 0xffff) == 0; });
  return static_cast<double>(rounded) / static_cast<double>(bits.size());
}

/// Every class of memory and all traffic.
void expect_planned_as_measured(const Trained& trained) {
  std::istringstream text(trained.out.substr(trained.out.rfind("memory of a rank")));
  int rows = 0;
  for (std::string line; std::getline(text, line);) {
    if (line[0] != ' ' || line.size() != 56) continue;  // no row with both numbers
    std::istringstream words(line.substr(24));
    std::string planned, measured;
    words >> planned >> measured;
    EXPECT_EQ(planned, measured) << line;
    ++rows;
  }
  EXPECT_GE(rows, 9) << trained.out;
}

TEST(EmulatedGpu, LosesAsTheCpuDoes) {
  const Trained cpu = train({"--device=cpu"});
  // Twice what equivalent runs on CPUs may differ by in their first ten steps.
  expect_close(train({"--device=cuda"}), cpu, 2e-6, 4e-6);
  expect_close(train({"--device=cuda", "--backend=local", "--ranks=2"}), cpu, 2e-6, 4e-6);
}

class Bfloat16 : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// The GPU rounds activations where the CPU widens weights: near, and not as near as above.
TEST_P(Bfloat16, LosesNearlyAsTheCpuDoes) {
  const auto [ranks, strategy] = GetParam();
  const Trained cpu = train({"--device=cpu", "--param_dtype=bfloat16"});
  const Trained gpu = train({"--device=cuda", "--backend=local", std::string("--ranks=") + ranks,
                             std::string("--strategy=") + strategy, "--param_dtype=bfloat16"});
  expect_close(gpu, cpu, 1e-4, 1e-2);
  EXPECT_NE(gpu.lines.back()["loss"], cpu.lines.back()["loss"]);
  expect_planned_as_measured(gpu);
  EXPECT_LT(share_of_rounded(gpu.weights), 0.1) << "what is saved is the master copy";
}
INSTANTIATE_TEST_SUITE_P(EmulatedGpu, Bfloat16,
                         ::testing::Values(std::pair("1", "no_shard"),
                                           std::pair("2", "shard_optimizer"),
                                           std::pair("2", "full_shard")));

}  // namespace
}  // namespace nanofsdp::testing
