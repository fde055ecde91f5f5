#include <gtest/gtest.h>

#include "../../lessons/frame/recipes.h"

// The papers' figures.

namespace lesson::recipes_test {
namespace {

constexpr double kGigabyte = 1e9;

// ZeRO (arXiv 1910.02054), figure 1 and section 3.1: 7.5 billion parameters, 64 ranks.
TEST(PapersCount, IsZeroFigure1) {
  const Recipe& recipe = kRecipes[2];
  EXPECT_EQ(recipe.name, "master weights (O2)");
  const double figure[] = {120, 31.40625, 16.640625, 1.875};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_DOUBLE_EQ(7.5e9 * recipe.bytes_a_parameter(stage, 64) / kGigabyte, figure[stage]);
  }
}

// Bytes a parameter of each recipe, whole; and on 4 ranks, by hand.
TEST(PapersCount, DividesWhatTheStageShards) {
  const double on_4[][4] = {
      {16, 10, 7, 4},   // 4, 4, 8
      {18, 9, 6, 4.5},  // 2, 4, 12
      {16, 7, 5.5, 4},  // 2, 2, 12
      {8, 5, 3.5, 2},   // 2, 2, 4
  };
  for (std::size_t i = 0; i < kRecipes.size(); ++i) {
    EXPECT_EQ(kRecipes[i].bytes_a_parameter(), on_4[i][0]) << kRecipes[i].name;
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(kRecipes[i].bytes_a_parameter(stage, 4), on_4[i][stage]) << kRecipes[i].name;
    }
  }
}

}  // namespace
}  // namespace lesson::recipes_test
