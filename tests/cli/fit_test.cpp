#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/planned.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "support/process.h"
#include "support/temporary_directory.h"

// `plan --fit` chooses how many of the last blocks stay unsharded until backward. The plan is never
// over the memory, and hardly slower than the best of all choices.

namespace nanofsdp::cli::fit_test {
namespace {

constexpr double kSlower = 1.03;  // the most that a step may be longer than the best one

struct Choice {
  double peak = 0, seconds = 0;
};

Choice choice_of(const nlohmann::ordered_json& row) { return {row["peak_bytes"], row["seconds"]}; }

std::size_t blocks_of(const PlanOptions& o) {
  return fsdp::wrap(*o.make_model(), plan::is_block).size() - 1;
}

// Fits the plan into `memory`, and compares it with all choices. Returns how much slower it is than
// the best of those that fit.
double expect_best(Words words, double memory, const std::vector<Choice>& all) {
  words.push_back(fmt::format("--fit={}GB", memory / 1e9));
  words.push_back("--memory_reserve=0");
  const PlanOptions o = parse_plan_options(words);
  const Choice fitted = choice_of(row_of(o, cli::fitted(o, "")));
  const double fits = o.find_machine().memory;
  double best = 1e300;
  for (const Choice& choice : all) {
    if (choice.peak <= fits) best = std::min(best, choice.seconds);
  }
  EXPECT_LE(fitted.peak, fits);
  EXPECT_LE(fitted.seconds, kSlower * best);
  return fitted.seconds / best;
}

// Tries a memory at each of some places between that of no block and that of all.
double expect_best_everywhere(const Words& words, const std::vector<Choice>& all) {
  double worst = 1, least = 1e300, most = 0;
  for (const Choice& choice : all) {
    least = std::min(least, choice.peak), most = std::max(most, choice.peak);
  }
  const double memory = parse_plan_options(words).find_machine().memory;
  for (const double place : {0.0, 0.2, 0.5, 0.8, 1.0}) {
    const double fit = std::min(memory, 1 + least + place * (most - least));
    worst = std::max(worst, expect_best(words, fit, all));
  }
  return worst;
}

TEST(Fit, RefusesWhatIsNoSize) {
  for (const char* size : {"", "abc", "0", "80", "GB", "0GB", "-3GB", "80GBs", "nanGB", "infGB"}) {
    try {
      parse_plan_options({"--model=gpt2", "--machine=h100", fmt::format("--fit={}", size)});
      ADD_FAILURE() << size;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(),
                fmt::format("--fit: expected a size, 80GB or 74.5GiB, got '{}'", size));
    }
  }
}

// The command prints the plan of the option that it names, and a table of both plans.
TEST(Fit, SaysTheOptionThatDoesTheSame) {
  const nanofsdp::testing::TemporaryDirectory directory;
  const auto printed = [&](const std::string& more) {
    return nanofsdp::testing::output_of(
        directory, plan::words_in("plan --model=llama-3-8b --machine=h100 --ranks=64 "
                                  "--block_size=2048 --network_bandwidth=5e9 " +
                                  more));
  };
  const auto json = nlohmann::json::parse(printed("--fit=40GB --json=True"));
  const std::string n = json["planned"]["unsharded_blocks"];
  EXPECT_GT(std::stoi(n), 0);
  const std::string text = printed("--fit=40GB");
  EXPECT_NE(text.find("\n --unsharded_blocks=0 "), text.npos) << text;
  EXPECT_NE(text.find("\n --unsharded_blocks=" + n + " "), text.npos) << text;
  auto typed = nlohmann::json::parse(printed("--json=True --unsharded_blocks=" + n));
  typed["memory_bytes"] = 40e9;
  EXPECT_EQ(typed, json);
  // A gain of less than 1 % is none.
  const std::string all = printed("--network_bandwidth=50e9 --unsharded_blocks=32 --json=True"),
                    few = printed("--network_bandwidth=50e9 --unsharded_blocks=0 --json=True");
  const auto seconds = [](const std::string& json) {
    return nlohmann::json::parse(json)["seconds"].get<double>();
  };
  EXPECT_LT(seconds(all), seconds(few));
  EXPECT_GT(seconds(all), 0.99 * seconds(few));
  const std::string kept = printed("--network_bandwidth=50e9 --fit=75GB");
  EXPECT_NE(kept.find("none that stays unsharded makes a step 1 % faster\n"), kept.npos) << kept;
  EXPECT_EQ(kept.find("\n --unsharded_blocks="), kept.npos) << kept;
  const std::string none = printed("--fit=1GB");
  EXPECT_NE(none.find("does not fit"), none.npos) << none;
  EXPECT_EQ(none.find(" --unsharded_blocks=0 "), none.npos) << none;
}

// Large models: all numbers of blocks.
TEST(Fit, LongIsNeverOverTheMemoryAndAsFastAsTheBestNumberOfBlocks) {
  double worst = 1;
  for (const char* words :
       {"--model=gpt2 --ranks=8", "--model=gpt2-medium --ranks=64 --batch_size=4",
        "--model=gpt2-large --ranks=8 --machine=a100-80", "--model=gpt2-xl --ranks=512",
        "--model=mpt-1b --ranks=512", "--model=mpt-7b --ranks=64 --recompute=block",
        "--model=mpt-30b --ranks=128 --recompute=block", "--model=llama-2-7b --ranks=8",
        "--model=llama-2-13b --ranks=64 --machine=a100-80 --recompute=block",
        "--model=llama-2-70b --ranks=512 --recompute=block --network_bandwidth=5e9",
        "--model=llama-3-1b --ranks=16 --gradient_accumulation_steps=64",
        "--model=llama-3-3b --ranks=512 --block_size=1024",
        "--model=llama-3-8b --ranks=64 --recompute=selective --layout=per_parameter",
        "--model=llama-3-8b --ranks=512 --block_size=2048 --network_bandwidth=5e9",
        "--model=olmo-2-7b --ranks=32 --no_sync=True --gradient_accumulation_steps=64",
        "--model=llama-3-8b --ranks=64 --strategy=hybrid_shard --shard_size=16 --block_size=1024",
        "--model=llama-3-8b --ranks=64 --reshard_after_forward=8 --block_size=1024"}) {
    SCOPED_TRACE(words);
    Words typed = plan::words_in(words);
    if (std::string(words).find("--machine") == std::string::npos)
      typed.push_back("--machine=h100");
    const PlanOptions o = parse_plan_options(typed);
    std::vector<Choice> all;
    for (std::size_t n = 0; n <= blocks_of(o); ++n) {
      all.push_back(choice_of(row_of(o, fmt::format(" --unsharded_blocks={}", n))));
      EXPECT_GE(all[n].peak, all[n > 0 ? n - 1 : 0].peak);
    }
    worst = std::max(worst, expect_best_everywhere(typed, all));
  }
  std::printf("%.4f times as long as with the best number\n", worst);
}

// Small models: each subset of the blocks, by the wrap policy of a program of one's own.
TEST(Fit, IsAsFastAsTheBestSubsetOfTheBlocks) {
  double worst = 1, gain = 1;
  for (const char* words :
       {"--n_layer=5 --n_embd=1024 --n_head=16 --ranks=8 --batch_size=8 --block_size=1024",
        "--n_layer=4 --n_embd=2048 --n_head=16 --ranks=64 --batch_size=64 --block_size=256",
        "--n_layer=6 --n_embd=768 --n_head=12 --ranks=512 --batch_size=512 --block_size=512",
        "--n_layer=6 --n_embd=4096 --n_head=32 --ranks=128 --batch_size=128 --recompute=block",
        "--n_layer=5 --n_embd=4096 --n_head=32 --ranks=2 --batch_size=8 "
        "--gradient_accumulation_steps=4"}) {
    for (const char* network : {"50e9", "20e9", "5e9", "2e9"}) {
      SCOPED_TRACE(fmt::format("{}, {}", words, network));
      Words typed = plan::words_in(words);
      for (const char* more : {"--machine=a100-80", "--network_bandwidth="}) typed.push_back(more);
      typed.back() += network;
      const PlanOptions o = parse_plan_options(typed);
      const plan::Machine machine = o.find_machine();
      plan::Run run = bench::planned_run(o.training, o.training, 0, 1, Device::simulated_cuda, 8);
      const auto model = o.make_model();
      const auto units = fsdp::wrap(*model, plan::is_block);
      std::map<const nn::Module*, std::size_t> numbers;
      for (std::size_t u = 0; u + 1 < units.size(); ++u) numbers[units[u].module] = u;
      std::vector<Choice> all;
      for (std::size_t subset = 0; subset < std::size_t{1} << numbers.size(); ++subset) {
        run.options.wrap_policy = [&](const nn::Module& module) {
          fsdp::UnitOptions unit = plan::is_block(module);
          if (unit.is_unit && (subset >> numbers.at(&module) & 1) != 0)
            unit.reshard_after_forward = false;
          return unit;
        };
        const plan::Plan planned = plan::plan(*model, run, &machine);
        all.push_back({static_cast<double>(planned.total_peak), planned.time->seconds});
      }
      EXPECT_EQ(all[0].seconds, plan_of(o).time->seconds);
      gain = std::max(gain, all[0].seconds / all.back().seconds);
      worst = std::max(worst, expect_best_everywhere(typed, all));
    }
  }
  EXPECT_GT(gain, 1.2);
  std::printf("%.4f times as long as with the best subset; all blocks gain a factor of %.2f\n",
              worst, gain);
}

}  // namespace
}  // namespace nanofsdp::cli::fit_test
