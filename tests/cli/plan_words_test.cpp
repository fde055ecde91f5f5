#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/option_kinds.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "fsdp/strategy.h"

namespace nanofsdp::cli::plan_words_test {
namespace {

// A plan says nothing of shards, of all-gathers and of units that fit if the strategy has none.
TEST(PlanInWords, NamesOnlyWhatTheStrategyHas) {
  for (const fsdp::Sharding& strategy : fsdp::kShardings) {
    const std::vector<std::string> words = {
        "--parameters=70e9",
        "--unit=60e9",
        "--machine=h100",
        "--ranks=16",
        "--strategy=" + std::string(strategy.name),
        strategy.replicates ? "--shard_size=8" : "--shard_size=0"};
    const PlanOptions o = parse_plan_options(words);
    const std::string text = what_would_fit(o);
    EXPECT_NE(text.find("FSDP alone cannot: after all changes"), text.npos) << text;
    EXPECT_EQ(text.find("all-gathers"), text.npos) << "a cast is no all-gather: " << text;
    const std::string line = sharding_line(o.training, strategy.strategy, "2 units", 9, 1);
    EXPECT_EQ(line.find("9 elements a shard, padding 1") != line.npos, strategy.optimizer) << line;
    EXPECT_EQ(line.find("no shards") != line.npos, !strategy.optimizer) << line;
  }
}

}  // namespace
}  // namespace nanofsdp::cli::plan_words_test
