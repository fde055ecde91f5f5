#include <gtest/gtest.h>

#include "models/code.h"
#include "models/run.h"

// Programs that once failed, as the shrinker left them.

namespace models {
namespace {

using nanofsdp::DType;

void expect_equal(const Program& program) { EXPECT_EQ(run(program), "") << code_of(program); }

// A parent keeps its dy, whatever a child does to compute again.
TEST(Found, RecomputeInsideAResidual) {
  expect_equal(
      {.model = {.kind = Kind::residual, .children = {{.kind = Kind::affine, .recompute = true}}}});
}

// The last of several backwards reduces, also where none of the forwards saved anything.
TEST(Found, UnitUsedTwiceInsideRecompute) {
  expect_equal({.model = {.kind = Kind::repeat,
                          .times = 2,
                          .children = {{.kind = Kind::sequential,
                                        .recompute = true,
                                        .children = {{.kind = Kind::affine, .unit = true}}}}}});
}

// What a rank alone did is no guess about what all do next.
TEST(Found, RanksThatSkipAUnitPrefetchAlike) {
  expect_equal({.ranks = 2,
                .strategy = ShardingStrategy::shard_gradients,
                .forward_prefetch = 1,
                .steps = 2,
                .micro_steps = 2,
                .model = {.kind = Kind::sequential,
                          .children = {{.kind = Kind::choose,
                                        .picks = {-1, 0},
                                        .by_rank = true,
                                        .children = {{.kind = Kind::affine, .unit = true}}},
                                       {.kind = Kind::silent, .unit = true}}}});
}

// Nor is what a rank alone used where all ranks gathered something else.
TEST(Found, RanksThatSkipAFreshUnitPrefetchAlike) {
  expect_equal({.ranks = 2,
                .strategy = ShardingStrategy::shard_optimizer,
                .forward_prefetch = 1,
                .steps = 2,
                .micro_steps = 2,
                .model = {.kind = Kind::parallel,
                          .children = {{.kind = Kind::choose,
                                        .picks = {1, 0},
                                        .by_rank = true,
                                        .children = {{.kind = Kind::affine, .unit = true}, {}}},
                                       {.kind = Kind::choose,
                                        .picks = {0, -1},
                                        .children = {{.kind = Kind::affine, .unit = true}}}}}});
}

// What is frozen needs no memory to be reduced in.
TEST(Found, FrozenUnitReducedInBfloat16) {
  expect_equal({.reduce_dtype = DType::bfloat16,
                .model = {.kind = Kind::residual,
                          .children = {{.kind = Kind::silent},
                                       {.kind = Kind::linear, .unit = true, .frozen = true}}}});
}

// Whoever pauses the tape within a pause leaves it paused.
TEST(Found, PauseInsideAPause) {
  expect_equal({.model = {.kind = Kind::sequential,
                          .recompute = true,
                          .children = {{.kind = Kind::detached}, {.kind = Kind::affine}}}});
}

// A module that the tree has twice is one unit, used twice.
TEST(Found, UnitUnderTwoNames) {
  expect_equal({.ranks = 2,
                .model = {.kind = Kind::sequential,
                          .again = true,
                          .children = {{.kind = Kind::affine, .unit = true},
                                       {.kind = Kind::affine, .unit = true}}}});
}

}  // namespace
}  // namespace models
