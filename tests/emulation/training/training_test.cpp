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

// The same command line runs on the CPU and on an emulated GPU, and gives the same losses.

namespace nanofsdp::testing {
namespace {

using nlohmann::json;

/// The results of a small run.
struct Trained {
  std::vector<json> lines;  // the lines of the metrics that have a loss
  std::string out;
  std::string weights;  // the bytes of the file
};

using Options = std::vector<std::string>;

Options operator+(Options options, const Options& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

Trained train_in(const TemporaryDirectory& directory, const Options& options) {
  const Options small = {"train",          "--n_layer=2",      "--n_head=2",
                         "--n_embd=16",    "--block_size=16",  "--batch_size=4",
                         "--bias=True",    "--dropout=0.2",    "--max_iters=5",
                         "--eval_iters=1", "--warmup_iters=2", "--lr_decay_iters=10",
                         "--explain=True", "--out_dir=out",    "--metrics=metrics.jsonl",
                         "--sample=0"};
  Process process(directory.file("."), small + options);
  EXPECT_EQ(process.wait(std::chrono::seconds(300)), 0) << process.err();
  Trained trained{.out = process.out(),
                  .weights = read_file(directory.file("out/model.safetensors"))};
  std::istringstream text(read_file(directory.file("metrics.jsonl")));
  for (std::string line; std::getline(text, line);) {
    const json parsed = json::parse(line);
    if (parsed.contains("loss")) trained.lines.push_back(parsed);
  }
  return trained;
}

Trained train(const Options& options) { return train_in(TemporaryDirectory(), options); }

void expect_close(const Trained& got, const Trained& want, double of_loss, double of_norm) {
  ASSERT_EQ(got.lines.size(), want.lines.size());
  ASSERT_GE(got.lines.size(), 5u);
  for (std::size_t i = 0; i < got.lines.size(); ++i) {
    const auto relative = [&](const char* key) {
      return std::abs(got.lines[i][key].get<double>() / want.lines[i][key].get<double>() - 1);
    };
    EXPECT_LE(relative("loss"), of_loss) << "step " << i;
    EXPECT_LE(relative("grad_norm"), of_norm) << "step " << i;
  }
}

/// The share of the numbers of a safetensors file that bfloat16 can hold.
double share_of_rounded(const std::string& file) {
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  const std::string_view data = std::string_view(file).substr(sizeof header + header);
  std::vector<std::uint32_t> bits(data.size() / 4);
  std::memcpy(bits.data(), data.data(), data.size());
  const auto rounded = std::ranges::count_if(bits, [](auto x) { return (x & 0xffff) == 0; });
  return static_cast<double>(rounded) / static_cast<double>(bits.size());
}

/// Expects equal plans and measurements for every class of memory and all traffic.
void expect_planned_as_measured(const Trained& trained) {
  std::istringstream text(trained.out.substr(trained.out.rfind("memory of a rank")));
  int rows = 0;
  for (std::string line; std::getline(text, line);) {
    if (line[0] != ' ' || line.size() != 56) continue;  // not a row with both numbers
    std::istringstream words(line.substr(24));
    std::string planned, measured;
    words >> planned >> measured;
    EXPECT_EQ(planned, measured) << line;
    ++rows;
  }
  EXPECT_GE(rows, 9) << trained.out;
}

/// A run on the emulated GPU, and the options that the run on the CPU shares with it.
struct Run {
  std::string name;
  Options options;
  Options in_common{};
};

Options on_ranks(int ranks, const std::string& strategy) {
  return {"--device=cuda", "--backend=local", "--ranks=" + std::to_string(ranks),
          "--strategy=" + strategy};
}

std::string name_of(const ::testing::TestParamInfo<Run>& info) { return info.param.name; }

class Float32 : public ::testing::TestWithParam<Run> {};

TEST_P(Float32, LosesAsTheCpuDoes) {
  const Options ten = GetParam().in_common + Options{"--max_iters=10"};
  const Trained cpu = train(ten);
  const Trained gpu = train(ten + GetParam().options);
  // These are twice the differences that equivalent runs on CPUs may have in their first ten steps.
  expect_close(gpu, cpu, 2e-6, 4e-6);
  expect_planned_as_measured(gpu);
}

// Every strategy runs at least once, and every feature that changes the order of waits.
INSTANTIATE_TEST_SUITE_P(
    EmulatedGpu, Float32,
    ::testing::Values(
        Run{"OneRank", {"--device=cuda"}},
        Run{"NoShardAndRecompute", on_ranks(2, "no_shard") + Options{"--recompute=True"}},
        Run{"ShardOptimizer", on_ranks(2, "shard_optimizer")},
        Run{"ShardGradientsAndMicroSteps",
            on_ranks(2, "shard_gradients"),
            {"--batch_size=1", "--gradient_accumulation_steps=4"}},
        Run{"ShardGradOpAndPrefetchPost",
            on_ranks(2, "shard_grad_op") + Options{"--backward_prefetch=post"}},
        Run{"FullShard", on_ranks(2, "full_shard")},
        Run{"FullShardOfFour", on_ranks(4, "full_shard") + Options{"--forward_prefetch=1"}},
        Run{"HybridShardOfFour", on_ranks(4, "hybrid_shard") + Options{"--shard_size=2"}}),
    name_of);

class Bfloat16 : public ::testing::TestWithParam<Run> {};

// The GPU rounds activations, and the CPU widens weights. So the losses are less close than above.
TEST_P(Bfloat16, LosesNearlyAsTheCpuDoes) {
  const Trained cpu = train({"--param_dtype=bfloat16"});
  const Trained gpu = train(GetParam().options + Options{"--param_dtype=bfloat16"});
  expect_close(gpu, cpu, 1e-4, 1e-2);
  EXPECT_NE(gpu.lines.back()["loss"], cpu.lines.back()["loss"]);
  expect_planned_as_measured(gpu);
  EXPECT_LT(share_of_rounded(gpu.weights), 0.1) << "what is saved is the master copy";
}
INSTANTIATE_TEST_SUITE_P(
    EmulatedGpu, Bfloat16,
    ::testing::Values(Run{"OneRankThatSamples", {"--device=cuda", "--sample=20"}},
                      Run{"ShardOptimizer", on_ranks(2, "shard_optimizer")},
                      Run{"FullShardAndRecompute",
                          on_ranks(2, "full_shard") + Options{"--recompute=True"}}),
    name_of);

/// 50 steps of a model that one head of 64 features attends, so it runs the kernels of flash
/// attention.
Trained train_long(const Options& options) {
  return train(Options{"--n_layer=1", "--n_head=1", "--n_embd=64", "--block_size=8",
                       "--max_iters=50", "--lr_decay_iters=50"} +
               options);
}

/// The numbers of a key of each line.
std::vector<double> numbers(const Trained& trained, const char* key) {
  std::vector<double> found;
  for (const json& line : trained.lines) found.push_back(line[key].get<double>());
  return found;
}

void expect_losses_within(const Trained& got, const Trained& want, double tolerance) {
  const std::vector<double> losses = numbers(got, "loss"), expected = numbers(want, "loss");
  ASSERT_EQ(losses.size(), 50u);
  ASSERT_EQ(expected.size(), 50u);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], tolerance) << "step " << i;
  }
}

class FiftySteps : public ::testing::TestWithParam<int> {};

// A training of that many ranks in bfloat16 has the same bits under every strategy whose reductions
// have one order, and the losses of float32 within a hundredth. Hybrid strategies add in an order
// of their own.
TEST_P(FiftySteps, InBfloat16HaveOneSetOfBitsAndNearlyTheLossesOfFloat32) {
  const int ranks = GetParam();
  const Trained float32 = train_long({});
  EXPECT_GT(float32.lines.front()["loss"].get<double>(),
            float32.lines.back()["loss"].get<double>() + 0.5)
      << "a training that learns nothing would show nothing";
  Trained first;
  std::vector<const char*> strategies = {"no_shard", "full_shard"};  // one rank shards nothing
  if (ranks > 1)
    strategies.insert(strategies.end(), {"shard_optimizer", "shard_gradients", "shard_grad_op"});
  for (const char* strategy : strategies) {
    SCOPED_TRACE(strategy);
    const Trained trained =
        train_long(on_ranks(ranks, strategy) + Options{"--param_dtype=bfloat16"});
    if (first.lines.empty()) {
      first = trained;
      expect_losses_within(first, float32, 1e-2);
      EXPECT_NE(numbers(first, "loss"), numbers(float32, "loss"));
    }
    EXPECT_EQ(numbers(trained, "loss"), numbers(first, "loss"));
    EXPECT_EQ(numbers(trained, "grad_norm"), numbers(first, "grad_norm"));
    EXPECT_TRUE(trained.weights == first.weights);
  }
  for (const char* strategy : {"hybrid_shard", "hybrid_shard_optimizer"}) {
    if (ranks < 4) continue;
    SCOPED_TRACE(strategy);
    const Options options{"--param_dtype=bfloat16", "--shard_size=2"};
    expect_losses_within(train_long(on_ranks(ranks, strategy) + options), float32, 1e-2);
  }
}
INSTANTIATE_TEST_SUITE_P(Long, FiftySteps, ::testing::Values(1, 2, 4));

TEST(EmulatedGpu, ResumesAsTheCpuGoesOn) {
  const TemporaryDirectory directory;
  const Options two = on_ranks(2, "full_shard");
  train_in(directory, two + Options{"--max_iters=2"});
  const Trained resumed = train_in(directory, two + Options{"--init_from=resume"});
  expect_close(resumed, train({}), 2e-6, 4e-6);
}

}  // namespace
}  // namespace nanofsdp::testing
