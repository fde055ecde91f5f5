#include "14_two_slots/three_slots.h"

#include <gtest/gtest.h>

// Tests the clock of lesson 14's second exercise, and the answer that its page gives.

namespace lesson {
namespace {

// The rule of the solution: the last slot is left for the gradient of the current unit.
bool keeps_one(const Moment& now) { return now.free_slots > (now.has_gradient ? 0 : 1); }

TEST(ThreeSlots, CostNothingIfGatherAndReductionFitIntoAComputation) {
  int longer = 0;
  for (int gather = 1; gather <= 5; ++gather) {
    for (int compute = 1; compute <= 8; ++compute) {
      for (int reduce = 1; reduce <= 5; ++reduce) {
        const Backward pass{7, gather, compute, reduce};
        const auto three = backward_ends(pass, 3, keeps_one), four = backward_ends(pass, 4, {});
        ASSERT_TRUE(three && four);
        EXPECT_GE(*three, *four) << gather << " " << compute << " " << reduce;
        EXPECT_TRUE(*three == *four || gather + reduce > compute)
            << gather << " " << compute << " " << reduce;
        longer += *three > *four;
        EXPECT_EQ(*three, earliest_end(pass)) << "no rule is better";
      }
    }
  }
  EXPECT_GT(longer, 50) << "of 200 passes";
}

TEST(ThreeSlots, GivenToGathersAlwaysMayLeaveNoneForAGradient) {
  const auto always = [](const Moment&) { return true; };
  EXPECT_EQ(backward_ends({6, 1, 4, 1}, 3, always), std::nullopt);
  EXPECT_NE(backward_ends({3, 1, 1, 1}, 3, always), std::nullopt);
}

// One unit has nothing beside it.
TEST(ThreeSlots, OfOneUnitTakeItsThreeTimes) {
  EXPECT_EQ(backward_ends({1, 3, 5, 2}, 3, keeps_one), 10);
  EXPECT_EQ(backward_ends({1, 3, 5, 2}, 4, {}), 10);
}

}  // namespace
}  // namespace lesson
