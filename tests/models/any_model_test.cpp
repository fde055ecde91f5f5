#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/code.h"
#include "models/run.h"

// Runs programs as users write them with LoRA, LayerDrop, mixtures of experts, adapters and nested
// units, each under every strategy. An FSDP core that is right for a GPT only gets them wrong.

namespace models {
namespace {

Node affine(bool frozen = false) { return {.kind = Kind::affine, .bias = true, .frozen = frozen}; }
Node unit(Node node) {
  node.unit = true;
  return node;
}
Node recomputed(Node node) {
  node.recompute = true;
  return node;
}
Node of(Kind kind, std::vector<Node> children) {
  return {.kind = kind, .children = std::move(children)};
}
Node used_in(std::vector<int> picks, Node child) {
  return {.kind = Kind::choose, .picks = std::move(picks), .children = {std::move(child)}};
}

void expect_equal_under_every_strategy(Node model, std::vector<Action> actions, World world = {}) {
  world.ranks = 3;
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    world.strategy = sharding.strategy;
    for (const bool no_sync : {false, true}) {
      world.no_sync = no_sync;
      const Program program{.parts = {{world, actions}}, .model = model};
      EXPECT_EQ(run(program), "") << code_of(program);
    }
  }
}

constexpr World kAhead{.forward_prefetch = 1, .backward_prefetch = fsdp::BackwardPrefetch::pre};

// If a step skips a unit, the unit has no gradients, and not those of the step before.
TEST(AnyModel, SkipsAUnitInAStep) {
  expect_equal_under_every_strategy(
      of(Kind::sequential, {unit(affine()), used_in({0, -1, 0}, unit(affine())), unit(affine())}),
      training(3), kAhead);
}

// A unit that only the first micro-step uses is reduced in the last one.
TEST(AnyModel, SkipsAUnitInTheLastMicroStep) {
  expect_equal_under_every_strategy(
      of(Kind::sequential, {unit(affine()), used_in({0, -1}, unit(affine()))}), training(2, 2),
      kAhead);
}

// Backward reaches frozen weights after the last gradient of their unit (LoRA).
TEST(AnyModel, FreezesWhatBackwardReachesLast) {
  expect_equal_under_every_strategy(
      of(Kind::sequential, {unit(of(Kind::sequential, {affine(true), affine()})),
                            unit(of(Kind::residual, {affine(true), affine(), affine(true)}))}),
      training(2));
}

// A weight that two recomputed layers share has its gradient when both layers have added to it.
TEST(AnyModel, SharesAWeightBetweenRecomputedLayers) {
  Node layer{.kind = Kind::linear, .recompute = true, .bias = true, .tie = 1};
  expect_equal_under_every_strategy(
      unit(of(Kind::sequential, {layer, {.kind = Kind::gelu}, layer})), training(2),
      {.late = true});
}

// Each of many units declares a parameter that it does not use, with every backward prefetch.
TEST(AnyModel, LeavesAParameterUnused) {
  const Node block = unit(of(Kind::sequential, {affine(), {.kind = Kind::unused}}));
  for (const fsdp::BackwardPrefetch prefetch :
       {fsdp::BackwardPrefetch::none, fsdp::BackwardPrefetch::pre, fsdp::BackwardPrefetch::post}) {
    expect_equal_under_every_strategy(of(Kind::sequential, {block, block, block, block}),
                                      training(2),
                                      {.forward_prefetch = 1, .backward_prefetch = prefetch});
  }
}

// Units lie inside units inside units, with the default options.
TEST(AnyModel, NestsUnits) {
  const Node pair = unit(of(Kind::sequential, {unit(affine()), unit(affine()), affine()}));
  const Node outer = unit(of(Kind::residual, {affine(), pair, recomputed(pair)}));
  expect_equal_under_every_strategy(of(Kind::sequential, {outer, outer, unit(affine())}),
                                    training(2), kAhead);
}

// A unit is called several times in a pass, directly again and around other units.
TEST(AnyModel, CallsAUnitSeveralTimes) {
  Node around = of(Kind::sequential, {unit(affine()), unit(affine())});
  around.again = true;
  expect_equal_under_every_strategy(
      of(Kind::sequential, {{.kind = Kind::repeat, .times = 3, .children = {around}}}),
      training(2, 2), kAhead);
}

// As users of FSDP2 do: two micro-steps without synchronisation, an evaluation, and one with it.
TEST(AnyModel, IsEvaluatedWhileGradientsAddUp) {
  expect_equal_under_every_strategy(of(Kind::sequential, {unit(affine()), unit(affine())}),
                                    {{.what = Do::sync, .on = false, .which = -1},
                                     {.what = Do::pass},
                                     {.what = Do::pass},
                                     {.what = Do::sync, .which = -1},
                                     {.what = Do::evaluate},
                                     {.what = Do::pass, .inside = {{.what = Do::evaluate}}},
                                     {.what = Do::step}});
}

// As in PyTorch, a step after zero_grad finds no gradient.
TEST(AnyModel, IsSteppedWithoutAGradient) {
  std::vector<Action> actions = training(1);
  actions.insert(actions.end(), {{.what = Do::step}, {.what = Do::zero_grad}, {.what = Do::step}});
  expect_equal_under_every_strategy(of(Kind::sequential, {unit(affine()), affine()}), actions);
}

// A sum of one rank alone, or of one group, is not a gradient yet.
TEST(AnyModel, IsNotSteppedBeforeItsGradientsAreReduced) {
  expect_equal_under_every_strategy(of(Kind::sequential, {unit(affine()), affine()}),
                                    {{.what = Do::zero_grad},
                                     {.what = Do::pass, .on = false},
                                     {.what = Do::step},
                                     {.what = Do::pass},
                                     {.what = Do::step}});
}

// A step between forward and backward is refused, because backward would compute with other
// weights.
TEST(AnyModel, IsNotSteppedBetweenForwardAndBackward) {
  expect_equal_under_every_strategy(
      of(Kind::sequential, {unit(affine()), affine()}),
      {{.what = Do::save}, {.what = Do::pass, .inside = {{.what = Do::step}}}});
  expect_equal_under_every_strategy(
      of(Kind::sequential, {unit(affine()), affine()}),
      {{.what = Do::save}, {.what = Do::pass, .inside = {{.what = Do::load}}}});
}

// An error anywhere in a pass, in forward or backward, ends that pass and nothing else.
TEST(AnyModel, TrainsOnAfterAnError) {
  Node model = of(Kind::sequential, {unit(affine()), recomputed(unit(affine()))});
  model.children[1].hooks_before = model.children[0].hooks_after = true;
  for (int call = 0; call < 12; ++call) {
    std::vector<Action> actions = training(2);
    actions.insert(actions.begin() + 3, {.what = Do::fail, .which = call});
    const Program program{.parts = {{{.ranks = 2}, actions}}, .model = model};
    EXPECT_EQ(run(program), "") << code_of(program);
  }
}

// The training moves from 2 ranks to 3 and to 4, and from one layout to the next and back.
TEST(AnyModel, MovesToOtherRanksMidway) {
  const auto layout = fsdp::LayoutKind::per_parameter, rows = fsdp::LayoutKind::row_aligned;
  const Program program{
      .parts = {{{.ranks = 2}, training(1)},
                {{.ranks = 3, .strategy = ShardingStrategy::shard_optimizer, .layout = layout},
                 training(1)},
                {{.ranks = 3, .layout = rows}, training(1)},
                {{.ranks = 4, .shard_size = 2, .strategy = ShardingStrategy::hybrid_shard},
                 training(1)}},
      .model = of(Kind::sequential, {unit(affine()), {.kind = Kind::linear, .bias = true}})};
  EXPECT_EQ(run(program), "");
}

}  // namespace
}  // namespace models
