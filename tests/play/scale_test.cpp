#include "engine/scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/binding.h"

// Tests a run on thousands of simulated GPUs, as the page shows it.

namespace nanofsdp::play {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

const Args kLlama70B = {"--model=llama-3-70b", "--machine=h100", "--ranks=1024",
                        "--block_size=4096", "--recompute=block"};

Args with(Args args, const std::string& more) {
  args.push_back(more);
  return args;
}

// The number of all spans on a lane, and their seconds.
struct OnLane {
  std::int64_t count = 0;
  double seconds = 0;
};
OnLane on_lane(const Json& spans, int lane) {
  OnLane all;
  for (const Json& span : spans) {
    if (span[0] != lane) continue;
    ++all.count;
    all.seconds += span[4].get<double>() - span[3].get<double>();
  }
  return all;
}

TEST(Scale, TheSpansAreTheStepOfThePlan) {
  for (const char* more : {"--strategy=full_shard", "--strategy=no_shard", "--recompute=none",
                           "--gradient_accumulation_steps=2048"}) {
    SCOPED_TRACE(more);
    const Json answer = plan_run(with(kLlama70B, more)), &plan = answer["plan"];
    const double seconds = plan["seconds"];
    double first = seconds, last = 0;
    for (const Json& span : answer["spans"]) {
      first = std::min(first, span[3].get<double>());
      last = std::max(last, span[4].get<double>());
    }
    EXPECT_GE(first, -1e-9);
    EXPECT_NEAR(last, seconds, 1e-9);
    EXPECT_EQ(on_lane(answer["spans"], 1).count, plan["all_gathers"]);
    EXPECT_EQ(on_lane(answer["spans"], 2).count,
              plan["reduce_scatters"].get<int>() + plan["all_reduces"].get<int>());
    const double exposed = plan["exposed_seconds"]["all_gathers"].get<double>() +
                           plan["exposed_seconds"]["reductions"].get<double>();
    EXPECT_NEAR(on_lane(answer["spans"], 3).seconds, exposed, 0.02 * seconds);
  }
}

TEST(Scale, BytesOf70BillionParametersAreCountedInFull) {
  const Json plan = plan_run(with(kLlama70B, "--strategy=no_shard"))["plan"];
  const std::int64_t parameters = plan["parameters"];
  EXPECT_EQ(parameters, 70'553'706'496);
  EXPECT_EQ(plan["bytes"]["optimizer"], 8 * parameters);
  EXPECT_FALSE(plan["fits"]);
}

TEST(Scale, SaysWhatWouldFit) {
  const Args large = with(kLlama70B, "--recompute=none");
  EXPECT_FALSE(plan_run(large)["plan"]["fits"]);
  EXPECT_NE(explain_run(large).find("--recompute=selective would take"), std::string::npos);
}

TEST(Scale, AnswersAWrongOption) {
  Binding binding;
  const std::string answer = binding.answer(R"({"do": "plan", "args": ["--ranks=tea"]})");
  EXPECT_NE(Json::parse(answer)["error"].get<std::string>().find("--ranks"), std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::play
