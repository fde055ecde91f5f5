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
      {.parts = {{.actions = training(1)}},
       .model = {.kind = Kind::residual, .children = {{.kind = Kind::affine, .recompute = true}}}});
}

// The last of several backwards reduces, also where none of the forwards saved anything.
TEST(Found, UnitUsedTwiceInsideRecompute) {
  expect_equal({.parts = {{.actions = training(1)}},
                .model = {.kind = Kind::repeat,
                          .times = 2,
                          .children = {{.kind = Kind::sequential,
                                        .recompute = true,
                                        .children = {{.kind = Kind::affine, .unit = true}}}}}});
}

// What a rank alone did is no guess about what all do next.
TEST(Found, RanksThatSkipAUnitPrefetchAlike) {
  expect_equal({.parts = {{.world = {.ranks = 2,
                                     .strategy = ShardingStrategy::shard_gradients,
                                     .forward_prefetch = 1},
                           .actions = training(2, 2)}},
                .model = {.kind = Kind::sequential,
                          .children = {{.kind = Kind::choose,
                                        .picks = {-1, 0},
                                        .by_rank = true,
                                        .children = {{.kind = Kind::affine, .unit = true}}},
                                       {.kind = Kind::silent, .unit = true}}}});
}

// Nor is what a rank alone used where all ranks gathered something else.
TEST(Found, RanksThatSkipAFreshUnitPrefetchAlike) {
  expect_equal({.parts = {{.world = {.ranks = 2,
                                     .strategy = ShardingStrategy::shard_optimizer,
                                     .forward_prefetch = 1},
                           .actions = training(2, 2)}},
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
  expect_equal({.parts = {{.world = {.reduce_dtype = DType::bfloat16}, .actions = training(1)}},
                .model = {.kind = Kind::residual,
                          .children = {{.kind = Kind::silent},
                                       {.kind = Kind::linear, .unit = true, .frozen = true}}}});
}

// Whoever pauses the tape within a pause leaves it paused.
TEST(Found, PauseInsideAPause) {
  expect_equal({.parts = {{.actions = training(1)}},
                .model = {.kind = Kind::sequential,
                          .recompute = true,
                          .children = {{.kind = Kind::detached}, {.kind = Kind::affine}}}});
}

// A module that the tree has twice is one unit, used twice.
TEST(Found, UnitUnderTwoNames) {
  expect_equal({.parts = {{.world = {.ranks = 2}, .actions = training(1)}},
                .model = {.kind = Kind::sequential,
                          .again = true,
                          .children = {{.kind = Kind::affine, .unit = true},
                                       {.kind = Kind::affine, .unit = true}}}});
}

// What each rank has summed alone is not what the optimizer is to see.
TEST(Found, NormOfGradientsThatAreNotReduced) {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::no_shard, ShardingStrategy::hybrid_shard}) {
    expect_equal({.parts = {{.world = {.ranks = 2, .strategy = strategy},
                             .actions = {{.what = Do::pass, .on = false}, {.what = Do::clip}}}},
                  .model = {.kind = Kind::unused}});
  }
}

// On one rank there is no last micro-step to wait for.
TEST(Found, UnusedParameterOfAPassThatIsNotTheLast) {
  expect_equal({.parts = {{.actions = {{.what = Do::pass, .on = false}, {.what = Do::step}}}},
                .model = {.kind = Kind::sequential,
                          .children = {{.kind = Kind::unused}, {.kind = Kind::affine}}}});
}

// A backward that is refused has sent nothing.
TEST(Found, BackwardAfterAStepWithoutZeroGrad) {
  expect_equal(
      {.parts = {{.world = {.ranks = 2, .strategy = ShardingStrategy::shard_optimizer},
                  .actions = {{.what = Do::pass}, {.what = Do::fail, .which = 3}}}},
       .model = {.kind = Kind::detached, .children = {{.kind = Kind::affine, .unit = true}}}});
}

// A unit that was gathered in vain has gradients that can be forgotten.
TEST(Found, ZeroGradBetweenForwardAndBackward) {
  expect_equal({.parts = {{.world = {.ranks = 2},
                           .actions = {{.what = Do::ahead, .which = 2},
                                       {.what = Do::pass, .inside = {{.what = Do::zero_grad}}},
                                       {.what = Do::step}}}},
                .model = {.kind = Kind::choose,
                          .picks = {0},
                          .children = {{.kind = Kind::affine, .unit = true},
                                       {.kind = Kind::affine, .unit = true}}}});
}

// What has ended in a pass inside another one has not ended in that.
TEST(Found, PassInsideAnother) {
  expect_equal(
      {.parts = {{.world = {.ranks = 2, .strategy = ShardingStrategy::no_shard},
                  .actions = {{.what = Do::pass, .inside = {{.what = Do::pass, .on = false}}},
                              {.what = Do::step}}}},
       .model = {.kind = Kind::sequential,
                 .children = {{.kind = Kind::affine, .unit = true},
                              {.kind = Kind::affine, .unit = true}}}});
}

// Zeros are no sums of groups that are to be summed across them.
TEST(Found, ZerosInsideGroups) {
  expect_equal({.parts = {{.world = {.ranks = 2, .strategy = ShardingStrategy::hybrid_shard},
                           .actions = {{.what = Do::zero_grad, .on = false},
                                       {.what = Do::sync, .on = false},
                                       {.what = Do::pass},
                                       {.what = Do::sync},
                                       {.what = Do::pass}}}},
                .model = {.kind = Kind::affine}});
}

// Zeros that one rank has added to, and another has not, are no gradient of either.
TEST(Found, ZerosThatSomeRanksHaveAddedTo) {
  expect_equal({.parts = {{.world = {.ranks = 2, .strategy = ShardingStrategy::no_shard},
                           .actions = {{.what = Do::zero_grad, .on = false},
                                       {.what = Do::pass, .on = false},
                                       {.what = Do::step}}}},
                .model = {.kind = Kind::choose,
                          .picks = {-1, 0},
                          .by_rank = true,
                          .children = {{.kind = Kind::unused, .unit = true}}}});
}

}  // namespace
}  // namespace models
