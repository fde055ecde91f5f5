#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests what `nanofsdp plan` says about memory on a machine: whether a run fits, and what would.

namespace nanofsdp::plan_verdict_test {
namespace {

using testing::output_of;
using Words = std::vector<std::string>;

constexpr double kGiB = 1 << 30;

Words split(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string printed(const std::string& options) {
  const testing::TemporaryDirectory directory;
  return output_of(directory, split("plan " + options));
}

nlohmann::json json_of(const std::string& options) {
  return nlohmann::json::parse(printed(options + " --json=True"));
}

// The bytes of a rank at the largest moment of the whole run, and what is held back, must lie in
// the memory. The last plan has a first value that takes more than a step.
TEST(PlanVerdict, IsOfTheLargestMomentOfTheRunAndOfWhatIsHeldBack) {
  int fits = 0;
  for (const char* options :
       {"--model=llama-3-8b --ranks=64 --batch_size=2 --recompute=selective",
        "--model=llama-3-8b --ranks=64 --batch_size=3 --recompute=selective",
        "--model=llama-2-7b --ranks=8 --recompute=block --memory_reserve=60",
        "--model=gpt2-xl --ranks=8 --batch_size=25 --param_dtype=bfloat16 --recompute=selective",
        "--model=gpt2-xl --ranks=1 --param_dtype=bfloat16 --batch_size=27 --machine=h100-96",
        "--parameters=16.5e9 --unit=2e9 --ranks=512 --memory_reserve=50"}) {
    const auto json = json_of("--machine=h100 " + std::string(options));
    const double peak = json["peak_bytes"], reserve = json["reserve_bytes"],
                 memory = json["memory_bytes"];
    EXPECT_GE(peak, json["reserved_bytes"]);
    EXPECT_EQ(json["fits"], peak + reserve <= memory) << options;
    fits += json["fits"].get<bool>();
    const std::string row = fmt::format(
        "{:.2f} GiB at its largest, {:.2f} GiB held back, of {:.2f} GiB: {}\n", peak / kGiB,
        reserve / kGiB, memory / kGiB, json["fits"] ? "fits" : "does not fit");
    EXPECT_NE(printed("--machine=h100 " + std::string(options)).find(row), std::string::npos)
        << options << "\n"
        << row;
  }
  EXPECT_EQ(fits, 3);
}

// PyTorch prints these capacities.
TEST(PlanVerdict, HasTheCapacityThatCudaShows) {
  for (const auto& [machine, gib] :
       {std::pair("a100-80", 79.1), {"h100", 79.1}, {"h100-96", 95.0}, {"h200", 139.0}}) {
    const auto json = json_of(fmt::format("--model=gpt2 --machine={}", machine));
    EXPECT_NEAR(json["memory_bytes"].get<double>() / kGiB, gib, 0.01) << machine;
    EXPECT_EQ(json["reserve_bytes"], 2 * kGiB);
  }
}

// MosaicML ran this. Its loss is one kernel, which keeps no logits in float32.
TEST(PlanVerdict, IsThatAPublishedRunWithAFusedLossFits) {
  const std::string run =
      "--model=mpt-760m --machine=h100 --ranks=8 --batch_size=24 --gradient_accumulation_steps=16";
  EXPECT_TRUE(json_of(run)["fits"]);
  EXPECT_FALSE(json_of(run + " --fused_loss=False")["fits"]);
  const std::string llama = "--model=llama-3-8b --machine=h100 --ranks=8 --recompute=block";
  const double apart = json_of(llama)["peak_bytes"],
               fused = json_of(llama + " --fused_loss=True")["peak_bytes"];
  // A token's logits in bfloat16 and their gradients, in place of six times as many bytes.
  EXPECT_NEAR(apart - fused, (12.0 - 4.0) * 128'256 * 8192, 0.02 * apart);
}

// Each advice is appended to the command, which then fits, in the memory that was said.
void expect_advice_as_typed(const std::string& options, const std::string& begins) {
  std::istringstream lines(printed(options));
  int offers = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find(" would take ");
    if (end == line.npos) continue;
    ++offers;
    const std::string change = line.substr(2, end - 2);
    if (offers == 1) {
      EXPECT_TRUE(change.starts_with(begins)) << options << "\n" << line;
    }
    const auto json = json_of(options + " " + change);
    EXPECT_TRUE(json["fits"]) << options << " " << change;
    const std::string takes =
        fmt::format("{:.2f} GiB, {:.4g} tokens/s a rank", json["peak_bytes"].get<double>() / kGiB,
                    json["tokens_per_s"].get<double>());
    EXPECT_EQ(line.substr(end + 12), takes) << options << " " << change;
  }
  EXPECT_GE(offers, 1) << options;
}

TEST(PlanAdvice, IsTrueAsTyped) {
  for (const auto& [options, begins] :
       {std::pair("--model=llama-3-8b --ranks=64 --batch_size=12", "--batch_size=1"),
        {"--model=llama-2-7b --ranks=8 --zero 1 --batch_size=6", "--batch_size=1"},
        {"--model=llama-2-7b --ranks=8 --zero=0 --recompute=block", "--zero=1"},
        {"--model=llama-2-7b --ranks=1", "--ranks="},
        {"--model=llama-3-8b --ranks=1 --strategy=no_shard --recompute=block",
         "--zero=1 --ranks=8"},
        {"--model=llama-3-70b --ranks=64 --recompute=selective", "--tensor=2"},
        {"--model=mpt-30b --ranks=128 --no_sync=True --recompute=block --batch_size=2 "
         "--gradient_accumulation_steps=256",
         "--no_sync=False"},
        {"--model=llama-3-70b --ranks=64 --strategy=hybrid_shard --shard_size=4 --recompute=block",
         "--zero=3 --shard_size=0"},
        {"--model=llama-3-70b --ranks=64 --strategy=hybrid_shard --shard_size=32 --recompute=block "
         "--batch_size=2",
         "--batch_size=1"},
        {"--model=gpt2-xl --batch_size=32 --ranks=4 --gradient_accumulation_steps=4", "--"},
        {"--model=llama-2-70b --ranks=8 --batch_size=4 --gradient_accumulation_steps=16", "--"},
        {"--model=llama-3-70b --ranks=16 --zero=1", "--"}}) {
    expect_advice_as_typed(std::string("--machine=a100-80 ") + options, begins);
  }
}

TEST(PlanAdvice, TriesPairsWhereNoSingleChangeHelps) {
  const std::string text =
      printed("--machine=a100-80 --model=llama-3-70b --ranks=8 --batch_size=4 --block_size=4096");
  EXPECT_NE(text.find("no single change of FSDP makes it fit; these do:"), text.npos) << text;
  EXPECT_NE(text.find("  --recompute=block --ranks="), text.npos) << text;
}

// A plan says what it planned, as options that give the same plan.
TEST(PlanEcho, IsTheSamePlanAsTyped) {
  for (const char* options :
       {"", "train_gpt2 --machine=h100 --ranks=8", "--model=gpt2-xl --device=cuda --ranks=4",
        "--model=mpt-7b --machine=a100-80 --ranks=64 --layout=per_parameter",
        "--model=llama-3-8b --ranks=2 --recompute=block --recompute_every=2 --compile=True"}) {
    const std::string text = printed(options);
    const std::size_t at = text.find("planned    ") + 11;
    const std::string planned = text.substr(at, text.find('\n', at) - at);
    const std::string again = printed(std::string(options) + " " + planned);
    EXPECT_EQ(std::regex_replace(again, std::regex("note: .*\n"), ""), text);
    for (const auto& [name, value] : json_of(options)["planned"].items()) {
      EXPECT_NE(planned.find("--" + name + "=" + value.get<std::string>()), planned.npos) << name;
    }
  }
}

// A GPU computes in bfloat16 if nothing else is said, whatever the model.
TEST(PlanEcho, IsBfloat16OnAGpu) {
  for (const char* model :
       {"train_gpt2", "--model=gpt2", "--model=llama-3-8b", "--parameters=1e9"}) {
    EXPECT_EQ(json_of(std::string(model) + " --machine=h100")["planned"]["param_dtype"],
              "bfloat16");
    EXPECT_EQ(json_of(model)["planned"]["param_dtype"], "float32");
    EXPECT_EQ(json_of(std::string(model) +
                      " --device=cuda --param_dtype=float32")["planned"]["param_dtype"],
              "float32");
  }
}

// A bare number of parameters has no arithmetic, so nothing is said that needs one.
TEST(PlanEcho, SaysNoUtilisationWithoutAModel) {
  const auto json = json_of("--parameters=1e9 --machine=h100 --ranks=8");
  for (const char* name : {"mfu", "hfu", "tokens_per_s"}) EXPECT_FALSE(json.contains(name)) << name;
  const auto selective =
      json_of("--model=llama-3-8b --machine=h100 --ranks=64 --recompute=selective");
  EXPECT_GT(selective["hfu"], selective["mfu"]);
  const auto none = json_of("--model=llama-3-8b --machine=h100 --ranks=64");
  EXPECT_EQ(none["hfu"], none["mfu"]);
}

// Each row of a sweep is the plan of the words that are typed, in JSON too.
TEST(PlanSweep, IsOfPlansAsTyped) {
  for (const char* options :
       {"--model=llama-3-8b --machine=h100 --ranks=8 --gradient_accumulation_steps=32",
        "--model=gpt2 --ranks=8 --strategy=hybrid_shard --shard_size=2"}) {
    const auto rows = json_of(std::string(options) + " --sweep=ranks,strategy,recompute");
    EXPECT_GE(rows.size(), 45u);
    for (const auto& row : rows) {
      if (row["typed"].get<std::string>().find("block") == std::string::npos) continue;
      auto alone = json_of(options + row["typed"].get<std::string>());
      alone["typed"] = row["typed"];
      EXPECT_EQ(row, alone) << row["typed"];
    }
  }
}

// Communication that does not happen takes no time, and no communication takes longer than the
// step. A trace is as long as the step.
TEST(PlanTime, IsOfWhatHappens) {
  const testing::TemporaryDirectory directory;
  for (const std::string model : {"--model=gpt2", "--model=llama-3-1b", "--layout=per_parameter"}) {
    for (const std::string machine : {"h100", "a100-80"}) {
      for (const std::string sharding :
           {"--ranks=1", "--ranks=8 --strategy=no_shard", "--ranks=8", "--ranks=64 --zero=2",
            "--ranks=64 --strategy=hybrid_shard --shard_size=8 --network_bandwidth=1e9"}) {
        const std::string options =
            model + " --batch_size=64 --machine=" + machine + " " + sharding;
        const auto json = nlohmann::json::parse(
            output_of(directory, split("plan --json=True --trace=t.json " + options)));
        const double seconds = json["seconds"], communication = json["communication_seconds"];
        const double gathers = json["exposed_seconds"]["all_gathers"],
                     reductions = json["exposed_seconds"]["reductions"];
        EXPECT_LE(communication, seconds) << options;
        EXPECT_LE(gathers + reductions, communication * (1 + 1e-9)) << options;
        EXPECT_EQ(communication > 0, json["bytes_sent"] > 0) << options;
        EXPECT_TRUE(gathers == 0 || json["all_gathers"] > 0) << options;
        const auto trace = nlohmann::json::parse(testing::read_file(directory.file("t.json")));
        double first = seconds, last = 0;
        for (const auto& event : trace["traceEvents"]) {
          if (!event.contains("dur")) continue;
          first = std::min(first, event["ts"].get<double>());
          last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
        }
        EXPECT_GE(first, 0) << options;
        EXPECT_NEAR(1e-6 * last, seconds, 1e-9 * seconds) << options;
      }
    }
  }
}

// From one rank, what only saves memory on many ranks is tried with many.
TEST(PlanAdvice, FromOneRankUndoesWhatKeepsManyFromFitting) {
  for (const char* typed : {"--zero=0", "--param_dtype=float32", "--recompute=none"}) {
    const std::string text = printed(
        std::string("--machine=a100-80 --model=llama-3-70b --batch_size=8 --ranks=1 ") + typed);
    EXPECT_NE(text.find(" would take "), text.npos) << text;
    EXPECT_EQ(text.find("more ranks, or offloading"), text.npos) << text;
  }
}

// Ranks on CPUs share one memory, so more of them need more.
TEST(PlanAdvice, OffersFewerRanksOnACpu) {
  const std::string rest =
      "--n_layer=24 --n_embd=2048 --n_head=16 --block_size=512 --recompute=block --batch_size=8 "
      "--machine=" NANOFSDP_SOURCE_DIR "/data/machines/cpu-2.txt --ranks=8";
  const std::string text = printed(rest);
  EXPECT_NE(text.find("does not fit"), text.npos) << text;
  EXPECT_NE(text.find(" --ranks=4"), text.npos) << text;
  EXPECT_TRUE(json_of(rest + " --ranks=4")["fits"]);
  const std::string large = printed(rest + " --n_layer=96");
  EXPECT_NE(large.find("what helps is a smaller model, or more memory"), large.npos) << large;
}

// Tensor parallelism is offered beside FSDP's changes. It is what helps if they cannot.
TEST(PlanAdvice, OffersTensorParallelism) {
  const std::string both = printed("--model=llama-3-70b --machine=h100 --ranks=64");
  EXPECT_NE(both.find("\n  --recompute=block would take "), both.npos) << both;
  EXPECT_NE(both.find("\n  --tensor=8 would take "), both.npos) << both;
  EXPECT_EQ(both.find("cannot"), both.npos) << both;
  const std::string large = "--model=llama-3-405b --machine=h100 --ranks=512",
                    text = printed(large);
  EXPECT_NE(text.find("  FSDP alone cannot: after all changes"), text.npos) << text;
  EXPECT_NE(text.find("; what helps is tensor parallelism:\n  --recompute=block --tensor=2 "),
            text.npos)
      << text;
  EXPECT_TRUE(json_of(large + " --recompute=block --tensor=2")["fits"]);
}

TEST(PlanAdvice, SaysWhereFsdpAloneCannot) {
  const std::string units =
      printed("--parameters=100e9 --unit=50e9 --machine=h100 --ranks=64 --strategy=full_shard");
  EXPECT_NE(units.find("FSDP alone cannot"), units.npos) << units;
  EXPECT_NE(units.find("smaller units, or tensor parallelism"), units.npos) << units;
  const std::string rows = printed("--model=llama-3-8b --block_size=900000 --machine=h100");
  EXPECT_NE(rows.find("shorter rows, or context parallelism"), rows.npos) << rows;
}

}  // namespace
}  // namespace nanofsdp::plan_verdict_test
