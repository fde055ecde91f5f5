#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plan_options.h"
#include "cli/plan_report.h"

// Fifty random plans that do not fit: each change that is offered fits as it is typed, and no other
// single change of its kinds is faster.

namespace nanofsdp::cli::remedies_test {
namespace {

Words random_plan(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return values.begin()[random() % values.size()];
  };
  const std::string ranks = one_of({"8", "16", "64"});
  Words words = {
      fmt::format("--model={}", one_of({"llama-2-7b", "llama-3-8b", "llama-2-13b", "mpt-7b"})),
      fmt::format("--machine={}", one_of({"a100-40", "a100-80", "h100"})), "--ranks=" + ranks,
      fmt::format("--batch_size={}", one_of({"1", "2", "4", "8"})),
      fmt::format("--recompute={}", one_of({"none", "selective", "block"}))};
  const std::string strategy = one_of({"full_shard", "shard_grad_op", "no_shard", "hybrid_shard"});
  words.push_back("--strategy=" + strategy);
  if (strategy == "hybrid_shard") words.push_back("--shard_size=4");
  return words;
}

// The changes that the text offers, as they are typed.
Words offers_of(const std::string& text) {
  std::istringstream lines(text);
  Words offers;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find(" would take ");
    if (end != line.npos) offers.push_back(line.substr(1, end - 1));
  }
  return offers;
}

TEST(Remedies, LongOfFiftyPlansFitAsTypedAndAreTheFastest) {
  std::mt19937 random(1337);
  int plans = 0, offered = 0;
  while (plans < 50) {
    const PlanOptions o = parse_plan_options(random_plan(random));
    const auto json = json_of(o, plan_of(o));
    if (json["fits"]) continue;
    ++plans;
    const std::string text = what_would_fit(o);
    const Words offers = offers_of(text);
    EXPECT_TRUE(!offers.empty() || text.find("FSDP alone cannot") != text.npos) << text;
    offered += !offers.empty();
    double before = 1e300, best = 0;
    for (const std::string& offer : offers) {
      const auto row = row_of(o, offer);
      ASSERT_TRUE(row.contains("fits")) << offer;
      EXPECT_TRUE(row["fits"]) << offer;
      EXPECT_LE(row["tokens_per_s"], before) << offer;
      before = row["tokens_per_s"];
      best = std::max(best, before);
    }
    if (text.find("no single change") != text.npos) continue;
    for (const std::string other :
         {" --recompute=selective", " --recompute=block", " --batch_size=1", " --batch_size=2",
          " --batch_size=4", " --strategy=full_shard --shard_size=0"}) {
      const std::string name = other.substr(1, other.find('=') - 1);
      const bool less = name != "--recompute" || o.practice.recompute != plan::Recompute::block;
      const auto row = row_of(o, other);
      if (less && row.value("fits", false) && !offers.empty()) {
        EXPECT_LE(row["tokens_per_s"], best * (1 + 1e-9)) << other << "\n" << text;
      }
    }
  }
  EXPECT_GE(offered, 40);
}

}  // namespace
}  // namespace nanofsdp::cli::remedies_test
