#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "plan/transformer.h"
#include "support/errors.h"

// Tests `nanofsdp plan --tensor`: its ranks, what it refuses, and the options beside it.

namespace nanofsdp::cli::plan_tensor_test {
namespace {

using nlohmann::ordered_json;

PlanOptions options_of(const std::string& words) {
  return parse_plan_options(plan::words_in("--machine=h100 " + words));
}

ordered_json json_of(const std::string& words) {
  const PlanOptions o = options_of(words);
  return cli::json_of(o, plan_of(o));
}

constexpr char kLlama[] = "--model=llama-3-8b --recompute=block --batch_size=2 ";
constexpr char kMpt[] = "--model=mpt-7b --recompute=block --batch_size=2 ";

TEST(PlanTensor, RefusesSizesThatItCannotDivide) {
  const auto refused = [](const std::string& words, const std::string& why) {
    testing::expect_error<UsageError>([&] { options_of(words); }, why);
  };
  refused(kLlama + std::string("--ranks=12 --tensor=8"),
          "else a divisor of --ranks, heads, the MLP's width, got 8");
  refused(kLlama + std::string("--ranks=16 --tensor=16"), "a divisor of --ranks, heads");
  refused(kMpt + std::string("--ranks=3 --tensor=3"), "a divisor of --ranks, heads");
  refused("--model=gpt2 --ranks=8 --tensor=2", "--tensor: expected 1 with --kernels=nanofsdp");
  refused("--n_layer=2 --ranks=8 --tensor=2", "--tensor: expected 1 with --kernels=nanofsdp");
  refused("--parameters=1e9 --ranks=8 --tensor=2", "--tensor: expected 1 with");
  refused(kLlama + std::string("--ranks=8 --tensor=0"), "--tensor");
  refused(kLlama + std::string("--ranks=16 --tensor=8 --strategy=hybrid_shard --shard_size=4"),
          "shard_size");
  EXPECT_EQ(options_of("--model=gpt2 --kernels=pytorch --ranks=8 --tensor=4").ranks(), 8);
}

// A saved file has whole parameters. So the ranks of a tensor group gather the parts of one at a
// time, and the largest is the table of tokens.
TEST(PlanTensor, GathersPartsToSaveThem) {
  for (const int T : {1, 2, 4}) {
    const std::string words =
        "--model=llama-3-1b --block_size=1024 --ranks=8 --tensor=" + std::to_string(T);
    const auto communication = [](const std::string& of) {
      return json_of(of)["bytes"]["communication"].get<std::int64_t>();
    };
    const std::int64_t table = 128'256 * 2'048 * 4;
    EXPECT_EQ(communication(words + " --out_dir=o") - communication(words), T > 1 ? table : 0);
  }
}

// A tensor group has the rows of one rank, and its ranks share the tokens.
TEST(PlanTensor, CountsTheTokensOfAGroupOnce) {
  for (const char* model : {kLlama, kMpt}) {
    for (const int T : {1, 2, 8}) {
      const std::string tensor = " --tensor=" + std::to_string(T);
      const auto json = json_of(model + std::string("--ranks=64") + tensor);
      const double seconds =
          json["seconds"].get<double>() + json["straggler_seconds"].get<double>();
      const double tokens = 2.0 * options_of(model).training.block_size * 64 / T;
      EXPECT_NEAR(json["tokens_per_s"].get<double>() * 64 * seconds, tokens, 1e-6 * tokens);
      EXPECT_EQ(json["ranks"], 64);
      EXPECT_EQ(json["exposed_seconds"].contains("sums"), T > 1);
    }
  }
}

// Sums are inside a node as long as the group is. Then a slower network does not slow them.
TEST(PlanTensor, SumsInsideTheNode) {
  const auto sums = [](const std::string& words) {
    return json_of("--model=mpt-7b --batch_size=2 --recompute=block --ranks=64 " +
                   words)["exposed_seconds"]["sums"]
        .get<double>();
  };
  EXPECT_NEAR(sums("--tensor=8 --network_bandwidth=5e9"), sums("--tensor=8"), 1e-6);
  EXPECT_GT(sums("--tensor=16 --network_bandwidth=5e9"), 1.5 * sums("--tensor=16"));
  EXPECT_GT(sums("--tensor=8"), sums("--tensor=4"));
}

// What FSDP does beside it is what it does with fewer ranks and a smaller model.
TEST(PlanTensor, StandsBesideEveryStrategy) {
  for (const char* how :
       {"--strategy=no_shard", "--strategy=shard_optimizer", "--strategy=shard_gradients",
        "--strategy=shard_grad_op", "--strategy=full_shard --reshard_after_forward=2",
        "--strategy=hybrid_shard --shard_size=4", "--layout=per_parameter", "--layout=row_aligned",
        "--param_dtype=float32", "--no_sync=True --gradient_accumulation_steps=16"}) {
    const std::string words = kLlama + std::string("--ranks=64 ") + how;
    const auto whole = json_of(words + " --ranks=8 --memory_reserve=0"),
               part = json_of(words + " --tensor=8");
    for (const char* count : {"all_gathers", "reduce_scatters"})
      EXPECT_EQ(part[count], whole[count]) << how;
    EXPECT_LT(part["bytes"]["optimizer"].get<double>(),
              0.126 * whole["bytes"]["optimizer"].get<double>())
        << how;
    EXPECT_LT(part["peak_bytes"], whole["peak_bytes"]) << how;
    EXPECT_LT(part["bytes_across"].get<double>(), 0.13 * whole["bytes_across"].get<double>() + 1)
        << how;
  }
}

// Ranks that are tried, or advised, are whole tensor groups.
TEST(PlanTensor, TriesWholeGroups) {
  const PlanOptions o = options_of("--model=llama-3-70b --ranks=8 --tensor=8 --batch_size=1");
  const ordered_json json = cli::json_of(o, plan_of(o));
  ASSERT_FALSE(json["fits"]);
  const std::string advice = what_would_fit(o);
  EXPECT_NE(advice.find(" --ranks=32 "), advice.npos) << advice;
  EXPECT_EQ(ranks_typed(o, 3), " --ranks=24");
}

}  // namespace
}  // namespace nanofsdp::cli::plan_tensor_test
