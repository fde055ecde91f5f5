#include <gtest/gtest.h>

#include "models/code.h"
#include "models/run.h"

// These programs failed once. The shrinker has made them as small as they are.

namespace models {
namespace {

using nanofsdp::DType;

void expect_equal(const Program& program) { EXPECT_EQ(run(program), "") << code_of(program); }

// A parent keeps its dy, whatever a child does when it recomputes.
TEST(Found, RecomputeInsideAResidual) {
  expect_equal(
      {.parts = {{.actions = training(1)}},
       .model = {.kind = Kind::residual, .children = {{.kind = Kind::affine, .recompute = true}}}});
}

// The last of several backwards reduces, even if none of the forwards has saved anything.
TEST(Found, UnitUsedTwiceInsideRecompute) {
  expect_equal({.parts = {{.actions = training(1)}},
                .model = {.kind = Kind::repeat,
                          .times = 2,
                          .children = {{.kind = Kind::sequential,
                                        .recompute = true,
                                        .children = {{.kind = Kind::affine, .unit = true}}}}}});
}

// A pass in which only one rank used a unit does not change what all ranks prefetch.
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

// The same holds if all ranks gathered another unit and only one rank used this one.
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

// A frozen parameter needs no memory for reductions.
TEST(Found, FrozenUnitReducedInBfloat16) {
  expect_equal({.parts = {{.world = {.reduce_dtype = DType::bfloat16}, .actions = training(1)}},
                .model = {.kind = Kind::residual,
                          .children = {{.kind = Kind::silent},
                                       {.kind = Kind::linear, .unit = true, .frozen = true}}}});
}

// If the tape is paused inside a pause, it stays paused until the outer pause ends.
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

// The optimizer must not see sums of one rank alone.
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

// A unit that was gathered without need has gradients that can be forgotten.
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

// If a unit's backward has ended in an inner pass, it has not ended in the outer one.
TEST(Found, PassInsideAnother) {
  expect_equal(
      {.parts = {{.world = {.ranks = 2, .strategy = ShardingStrategy::no_shard},
                  .actions = {{.what = Do::pass, .inside = {{.what = Do::pass, .on = false}}},
                              {.what = Do::step}}}},
       .model = {.kind = Kind::sequential,
                 .children = {{.kind = Kind::affine, .unit = true},
                              {.kind = Kind::affine, .unit = true}}}});
}

// Zeros are not sums of groups, so they must not be summed across groups.
TEST(Found, ZerosInsideGroups) {
  expect_equal({.parts = {{.world = {.ranks = 2, .strategy = ShardingStrategy::hybrid_shard},
                           .actions = {{.what = Do::zero_grad, .on = false},
                                       {.what = Do::sync, .on = false},
                                       {.what = Do::pass},
                                       {.what = Do::sync},
                                       {.what = Do::pass}}}},
                .model = {.kind = Kind::affine}});
}

// If one rank has added to zeros and another has not, they are the gradient of neither.
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

// Parameters without values were shown to a visitor, if units compute with rounded ones.
TEST(Found, PartialValuesInBfloat16AreRefused) {
  expect_equal({.first = First::partial,
                .parts = {{.world = {.param_dtype = DType::bfloat16}}},
                .model = {.kind = Kind::affine}});
}

// Only the first module of this group reads nothing in backward, so the group is gathered there.
TEST(Found, AGroupThatBeginsWithAShift) {
  expect_equal(
      {.parts = {{.world = {.ranks = 2},
                  .actions = {{.what = Do::in_backward, .on = false}, {.what = Do::pass}}}},
       .model = {.kind = Kind::sequential,
                 .children = {{.kind = Kind::shift, .unit = true, .group = 1},
                              {.kind = Kind::affine, .unit = true, .group = 1}}}});
}

// The gradient of one rank is zero, and the other rank has none. Then both have a gradient of zero.
TEST(Found, AZeroGradientOfOneRankIsAGradientOfAll) {
  expect_equal({.parts = {{.world = {.ranks = 2, .strategy = ShardingStrategy::no_shard},
                           .actions = {{.what = Do::pass}, {.what = Do::step}}}},
                .model = {.kind = Kind::choose,
                          .picks = {-1, 0},
                          .by_rank = true,
                          .children = {{.kind = Kind::silent}}}});
}

}  // namespace
}  // namespace models
