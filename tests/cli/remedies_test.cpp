#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plan_options.h"
#include "cli/plan_report.h"

// Fifty random plans that do not fit: each change that is offered fits as it is typed, and no other
// change is more than 1 % faster, nor any two others if it takes two. There are hundreds of pairs for
// a plan: the test tries every eighth, and all of them under NANOFSDP_EVERY=1.

namespace nanofsdp::cli::remedies_test {
namespace {

Words random_plan(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return values.begin()[random() % values.size()];
  };
  const std::string ranks = one_of({"8", "16", "64"});
  Words words = {
      fmt::format("--model={}", one_of({"llama-2-7b", "llama-3-8b", "llama-2-13b", "mpt-7b"})),
      fmt::format("--machine={}", one_of({"a100-40", "a100-80", "h100"})),
      "--ranks=" + ranks,
      fmt::format("--batch_size={}", one_of({"1", "2", "4", "8"})),
      fmt::format("--recompute={}", one_of({"none", "selective", "block"})),
      fmt::format("--layout={}", one_of({"flat", "flat", "per_parameter", "row_aligned"})),
      fmt::format("--no_sync={}", one_of({"False", "False", "False", "True"})),
      fmt::format("--param_dtype={}", one_of({"bfloat16", "bfloat16", "float32", "float8_e4m3"}))};
  const std::string strategy = one_of({"full_shard", "shard_grad_op", "no_shard", "hybrid_shard",
                                       "hybrid_shard_optimizer", "shard_optimizer"});
  words.push_back("--strategy=" + strategy);
  if (strategy.starts_with("hybrid")) words.push_back("--shard_size=4");
  if (strategy == "full_shard")
    words.push_back(
        one_of({"--unsharded_blocks=0", "--unsharded_blocks=9", "--reshard_after_forward=2"}));
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

// All values of all options that decide over memory, as they are typed.
Words changes_of(const PlanOptions& o) {
  Words all;
  const auto add = [&](const std::string& option, std::initializer_list<const char*> values) {
    for (const char* value : values) all.push_back(fmt::format(" --{}={}", option, value));
  };
  add("recompute", {"none", "selective", "block"});
  add("batch_size", {"1", "2", "4"});
  add("layout", {"flat", "per_parameter", "row_aligned"});
  add("param_dtype", {"bfloat16", "float8_e4m3"});
  add("no_sync", {"False"});
  add("fused_loss", {"True"});
  add("unsharded_blocks", {"0"});
  add("reshard_after_forward", {"0", "2"});
  add("tensor", {"2", "4", "8"});
  for (const char* name :
       {"no_shard", "shard_optimizer", "shard_gradients", "shard_grad_op", "full_shard"})
    all.push_back(fmt::format(" --strategy={} --shard_size=0", name));
  for (const char* name : {"hybrid_shard", "hybrid_shard_optimizer"}) {
    for (int n = 2; n < o.training.ranks; n *= 4)
      all.push_back(fmt::format(" --strategy={} --shard_size={}", name, n));
  }
  for (int n = 2; n <= 8; n *= 2) all.push_back(fmt::format(" --ranks={}", n * o.ranks()));
  return all;
}

// The tokens/s of a rank, or 0 if the plan does not fit.
double speed_of(const PlanOptions& o, const std::string& words) {
  if (!row_of(o, words, /*timed=*/false).value("fits", false)) return 0;
  return row_of(o, words)["tokens_per_s"];
}

void expect_no_faster(const PlanOptions& o, const Words& changes, double best,
                      const std::string& text) {
  for (const std::string& words : changes)
    EXPECT_LE(speed_of(o, words), best * 1.01) << words << "\n" << text;
}

TEST(Remedies, LongOfFiftyPlansFitAsTypedAndAreTheFastest) {
  const char* asked = std::getenv("NANOFSDP_EVERY");
  const int every = asked ? std::stoi(asked) : 8;
  std::mt19937 random(1337);
  int offered = 0, pairs = 0;
  for (int plans = 0; plans < 50;) {
    const Words typed = random_plan(random);
    const PlanOptions o = parse_plan_options(typed);
    if (json_of(o, plan_of(o))["fits"]) continue;
    ++plans;
    const std::string text = fmt::format("{}\n{}", fmt::join(typed, " "), what_would_fit(o));
    const Words offers = offers_of(text);
    EXPECT_TRUE(!offers.empty() || text.find("FSDP alone cannot") != text.npos) << text;
    if (offers.empty()) continue;
    ++offered;
    double before = 1e300;
    for (const std::string& offer : offers) {
      const double speed = speed_of(o, offer);
      EXPECT_GT(speed, 0) << offer << "\n" << text;
      EXPECT_LE(speed, before) << offer << "\n" << text;
      before = speed;
    }
    const double best = speed_of(o, offers[0]);
    const Words changes = changes_of(o);
    expect_no_faster(o, changes, best, text);
    if (text.find("no single change") == text.npos) continue;
    ++pairs;
    for (const std::string& words : changes) {
      if (!words.starts_with(" --tensor")) {
        EXPECT_EQ(speed_of(o, words), 0) << words << "\n" << text;
      }
    }
    Words both;
    int pair = 0;
    for (auto a = changes.begin(); a != changes.end(); ++a) {
      for (auto b = a + 1; b != changes.end(); ++b) {
        if (pair++ % every == 0) both.push_back(*a + *b);
      }
    }
    expect_no_faster(o, both, best, text);
  }
  std::printf("%d of 50 plans have offers, %d need two changes\n", offered, pairs);
  EXPECT_GE(offered, 40);
  EXPECT_GE(pairs, 5);
}

}  // namespace
}  // namespace nanofsdp::cli::remedies_test
