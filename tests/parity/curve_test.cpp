#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "parity/golden.h"
#include "support/process.h"

// Compares the product, run from the command line, with PyTorch's curve: loss and gradient norm
// before clipping at every step. The loss alone is not enough, because AdamW and clipping hide a
// gradient that is W times too long until the first step without clipping.

namespace nanofsdp {
namespace {

using namespace std::chrono_literals;

struct Point {
  double loss = 0, grad_norm = 0;
};

// The tolerance is relative, for float32 against float64. On tiny Shakespeare it is 7 times the
// difference that equivalent computations have shown. On the tales the norm differs earlier:
// PyTorch 1.13's own is off by 2.0e-5 at step 250.
Point tolerance(const std::string& dataset, std::size_t step) {
  if (step <= 1) return {5e-7, 1e-6};
  if (step <= 10) return {1e-6, 2e-6};
  if (step <= 150) return {2e-6, 2e-5};
  if (step <= 250) return {2e-6, dataset == "tales" ? 1e-4 : 2e-5};
  if (step <= 1000) return {5e-6, 2e-4};
  return {1e-5, 2e-4};
}

std::vector<Point> golden_curve(const std::string& name) {
  std::vector<Point> curve;
  std::istringstream lines(testing::golden(name));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::size_t step = 0;
    Point p;
    if (words >> step >> p.loss >> p.grad_norm) curve.push_back(p);
  }
  return curve;
}

std::vector<Point> trained(std::vector<std::string> options, std::chrono::seconds limit) {
  const testing::TemporaryDirectory directory;
  const std::vector<std::string> common = {"train", "--metrics=m.jsonl", "--eval_iters=1",
                                           "--sample=0", "--eval_interval=5000"};
  options.insert(options.begin(), common.begin(), common.end());
  testing::Process process(directory.file(""), options);
  EXPECT_EQ(process.wait(limit), 0) << process.err();
  std::vector<Point> curve;
  std::istringstream lines(testing::read_file(directory.file("m.jsonl")));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("loss")) curve.push_back({json["loss"], json["grad_norm"]});
  }
  return curve;
}

// Stops at the first step beyond the tolerance.
void expect_parity(const std::string& dataset, const std::vector<Point>& got,
                   const std::vector<Point>& want, std::size_t steps) {
  ASSERT_EQ(got.size(), steps);
  ASSERT_GE(want.size(), steps);
  for (std::size_t i = 0; i < steps; ++i) {
    const Point allowed = tolerance(dataset, i + 1);
    ASSERT_LE(std::abs(got[i].loss / want[i].loss - 1), allowed.loss)
        << fmt::format("step {}: loss {:.9g}, PyTorch {:.9g}", i + 1, got[i].loss, want[i].loss);
    ASSERT_LE(std::abs(got[i].grad_norm / want[i].grad_norm - 1), allowed.grad_norm) << fmt::format(
        "step {}: norm {:.9g}, PyTorch {:.9g}", i + 1, got[i].grad_norm, want[i].grad_norm);
  }
}

struct Run {
  std::string dataset, order, strategy;
  int ranks;
};

std::string name_of(const Run& run) {
  return fmt::format("{}_{}_{}_{}", run.dataset, run.order, run.strategy, run.ranks);
}

class CurveParity : public ::testing::TestWithParam<Run> {
 protected:
  void SetUp() override {
    if (GetParam().dataset == "shakespeare" && std::getenv("NANOFSDP_SHAKESPEARE") == nullptr) {
      GTEST_SKIP() << "NANOFSDP_SHAKESPEARE does not name tiny Shakespeare";
    }
  }

  void expect_pytorchs_curve(int steps) const {
    const auto& [dataset, order, strategy, ranks] = GetParam();
    const std::string corpus = dataset == "shakespeare" ? "shakespeare_char" : dataset;
    std::vector<std::string> options = {"--dataset=" + corpus, "--init_order=" + order,
                                        "--strategy=" + strategy, fmt::format("--ranks={}", ranks),
                                        fmt::format("--max_iters={}", steps)};
    if (strategy == "hybrid_shard") options.push_back("--shard_size=2");
    const auto got = trained(options, std::chrono::seconds(60 + steps / 4));
    expect_parity(dataset, got, golden_curve(fmt::format("curve_{}_{}.txt", dataset, order)),
                  static_cast<std::size_t>(steps));
  }
};

TEST_P(CurveParity, FollowsPyTorchFor10Steps) { expect_pytorchs_curve(10); }
TEST_P(CurveParity, LongFollowsPyTorchFor250Steps) { expect_pytorchs_curve(250); }

INSTANTIATE_TEST_SUITE_P(Tales, CurveParity,
                         ::testing::Values(Run{"tales", "nanogpt", "full_shard", 1},
                                           Run{"tales", "nanogpt", "full_shard", 2},
                                           Run{"tales", "nanogpt", "no_shard", 3},
                                           Run{"tales", "nanogpt", "shard_optimizer", 2},
                                           Run{"tales", "nanogpt", "shard_gradients", 3},
                                           Run{"tales", "nanogpt", "shard_grad_op", 2},
                                           Run{"tales", "nanogpt", "hybrid_shard", 4}),
                         [](const auto& info) { return name_of(info.param); });

INSTANTIATE_TEST_SUITE_P(Shakespeare, CurveParity,
                         ::testing::Values(Run{"shakespeare", "nanogpt", "full_shard", 2},
                                           Run{"shakespeare", "nanogpt", "full_shard", 3},
                                           Run{"shakespeare", "nanogpt", "full_shard", 4},
                                           Run{"shakespeare", "fsdp", "full_shard", 2}),
                         [](const auto& info) { return name_of(info.param); });

// Weights and gradients are rounded, and the masters are float32. So the curve lies near that of
// float32, but not on it. On the tales the loss falls faster, and single steps differ more.
void expect_near_float32(const std::string& dataset, const char* golden, double most, double mean) {
  const auto want = golden_curve(golden);
  const auto got = trained({"--dataset=" + dataset, "--max_iters=250", "--ranks=2",
                            "--param_dtype=bfloat16", "--reduce_dtype=bfloat16"},
                           120s);
  ASSERT_EQ(got.size(), 250u);
  double largest = 0, sum = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i].loss - want[i].loss);
    largest = std::max(largest, difference);
    sum += difference;
  }
  EXPECT_LE(largest, most);
  EXPECT_LE(sum / 250, mean);
  EXPECT_GE(largest, 1e-5);
}

TEST(Bfloat16, LongStaysNearFloat32For250StepsOfTales) {
  expect_near_float32("tales", "curve_tales_nanogpt.txt", 2e-2, 3e-3);
}

TEST(Bfloat16, LongStaysNearFloat32For250StepsOfShakespeare) {
  if (std::getenv("NANOFSDP_SHAKESPEARE") == nullptr) {
    GTEST_SKIP() << "NANOFSDP_SHAKESPEARE does not name tiny Shakespeare";
  }
  expect_near_float32("shakespeare_char", "curve_shakespeare_nanogpt.txt", 3e-3, 1e-3);
}

class LongCurveParity : public CurveParity {};

TEST_P(LongCurveParity, LongFollowsPyTorchFor2000Steps) { expect_pytorchs_curve(2000); }

INSTANTIATE_TEST_SUITE_P(Shakespeare, LongCurveParity,
                         ::testing::Values(Run{"shakespeare", "nanogpt", "full_shard", 1},
                                           Run{"shakespeare", "fsdp", "full_shard", 1}),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace nanofsdp
