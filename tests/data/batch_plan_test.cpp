#include "data/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/usage_error.h"

namespace nanofsdp::data {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::usage_error;

// The law: over all ranks, the rows cover every micro-batch exactly once. Every rank makes the same
// number of micro-steps, in rising order. None of them is empty, or larger than those of rank 0.
TEST(BatchPlan, RowsTileEveryMicroBatchExactlyOnce) {
  int accepted = 0;
  for (std::int64_t B = 1; B <= 13; ++B) {
    for (std::int64_t G = 1; G <= 9; ++G) {
      for (int W = 1; W <= 9; ++W) {
        const StepShape shape{B, G, W};
        if (G % W != 0 && B < W) {
          EXPECT_NE(usage_error([&] { plan_step(shape, 0); }), "no error");
          continue;
        }
        ++accepted;
        std::vector<std::vector<int>> seen(G, std::vector<int>(B));
        for (int rank = 0; rank < W; ++rank) {
          const std::vector<MicroStep> plan = plan_step(shape, rank);
          ASSERT_EQ(plan.size(), micro_steps_per_rank(shape)) << B << " " << G << " " << W;
          std::int64_t previous = -1;
          for (const MicroStep& step : plan) {
            ASSERT_GT(step.index, previous);
            ASSERT_GE(step.rows.count, 1) << B << " " << G << " " << W;
            ASSERT_LE(step.rows.count, plan_step(shape, 0)[0].rows.count) << "of rank 0";
            previous = step.index;
            for (std::int64_t row = 0; row < step.rows.count; ++row) {
              ++seen.at(step.index).at(step.rows.first + row);
            }
          }
        }
        for (const std::vector<int>& rows : seen) {
          ASSERT_EQ(std::count(rows.begin(), rows.end(), 1), B) << B << " " << G << " " << W;
        }
      }
    }
  }
  EXPECT_EQ(accepted, 775);
}

TEST(BatchPlan, RanksShareTheAccumulationStepsFirst) {
  const StepShape shape{.batch_size = 12, .gradient_accumulation_steps = 4, .ranks = 2};
  EXPECT_EQ(plan_step(shape, 0), (std::vector<MicroStep>{{0, {0, 12}}, {1, {0, 12}}}));
  EXPECT_EQ(plan_step(shape, 1), (std::vector<MicroStep>{{2, {0, 12}}, {3, {0, 12}}}));
}

TEST(BatchPlan, ElseTheyShareRows) {
  const StepShape shape{.batch_size = 12, .gradient_accumulation_steps = 3, .ranks = 5};
  EXPECT_EQ(plan_step(shape, 0), (std::vector<MicroStep>{{0, {0, 3}}, {1, {0, 3}}, {2, {0, 3}}}));
  EXPECT_EQ(plan_step(shape, 4),
            (std::vector<MicroStep>{{0, {10, 2}}, {1, {10, 2}}, {2, {10, 2}}}));
}

TEST(BatchPlan, RefusesFewerRowsThanRanks) {
  const std::string error = usage_error([] { check_step({3, 1, 4}); });
  EXPECT_TRUE(one_line_with(error, {"rows", "--ranks=4", "--batch_size=4 or --ranks=3"})) << error;
}

TEST(BatchPlan, RefusesAMicroBatchThatCannotBeShared) {
  const std::string error = usage_error([] { check_step({2, 3, 4}); });
  EXPECT_TRUE(one_line_with(error, {"--batch_size=4 or --gradient_accumulation_steps=4"})) << error;
  EXPECT_NO_THROW(check_step({1, 4, 4}));  // 4 ranks share 4 whole micro-batches
}

}  // namespace
}  // namespace nanofsdp::data
