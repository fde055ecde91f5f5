#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/code.h"
#include "models/run.h"

// Programs that LoRA, LayerDrop, mixtures of experts, adapters and nested units write, each under
// every strategy. An FSDP core that is right for a GPT alone gets them wrong.

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

void expect_equal_under_every_strategy(Program program) {
  program.ranks = program.ranks > 1 ? program.ranks : 3;
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    program.strategy = sharding.strategy;
    for (const bool no_sync : {false, true}) {
      program.no_sync = no_sync;
      EXPECT_EQ(run(program), "") << code_of(program);
    }
  }
}

// A step that skips a unit leaves its gradients none, and not those of the step before.
TEST(AnyModel, SkipsAUnitInAStep) {
  expect_equal_under_every_strategy(
      {.forward_prefetch = 1,
       .backward_prefetch = fsdp::BackwardPrefetch::pre,
       .steps = 3,
       .model = of(Kind::sequential,
                   {unit(affine()), used_in({0, -1, 0}, unit(affine())), unit(affine())})});
}

// A unit that only the first micro-step uses is reduced in the last one.
TEST(AnyModel, SkipsAUnitInTheLastMicroStep) {
  expect_equal_under_every_strategy(
      {.forward_prefetch = 1,
       .backward_prefetch = fsdp::BackwardPrefetch::pre,
       .steps = 2,
       .micro_steps = 2,
       .model = of(Kind::sequential, {unit(affine()), used_in({0, -1}, unit(affine()))})});
}

// Backward reaches frozen weights after the last gradient of their unit (LoRA).
TEST(AnyModel, FreezesWhatBackwardReachesLast) {
  expect_equal_under_every_strategy(
      {.steps = 2,
       .model = of(Kind::sequential,
                   {unit(of(Kind::sequential, {affine(true), affine()})),
                    unit(of(Kind::residual, {affine(true), affine(), affine(true)}))})});
}

// A weight that two recomputed layers share has its gradient when both have given theirs.
TEST(AnyModel, SharesAWeightBetweenRecomputedLayers) {
  Node layer{.kind = Kind::linear, .recompute = true, .bias = true, .tie = 1};
  expect_equal_under_every_strategy(
      {.late = true,
       .steps = 2,
       .model = unit(of(Kind::sequential, {layer, {.kind = Kind::gelu}, layer}))});
}

// A declared parameter that nothing uses, in each of many units, whenever backward prefetches.
TEST(AnyModel, LeavesAParameterUnused) {
  const Node block = unit(of(Kind::sequential, {affine(), {.kind = Kind::unused}}));
  for (const fsdp::BackwardPrefetch prefetch :
       {fsdp::BackwardPrefetch::none, fsdp::BackwardPrefetch::pre, fsdp::BackwardPrefetch::post}) {
    expect_equal_under_every_strategy(
        {.forward_prefetch = 1,
         .backward_prefetch = prefetch,
         .steps = 2,
         .model = of(Kind::sequential, {block, block, block, block})});
  }
}

// Units in units in units, at the options that are the default.
TEST(AnyModel, NestsUnits) {
  const Node pair = unit(of(Kind::sequential, {unit(affine()), unit(affine()), affine()}));
  const Node outer = unit(of(Kind::residual, {affine(), pair, recomputed(pair)}));
  expect_equal_under_every_strategy(
      {.forward_prefetch = 1,
       .backward_prefetch = fsdp::BackwardPrefetch::pre,
       .steps = 2,
       .model = of(Kind::sequential, {outer, outer, unit(affine())})});
}

// One unit called several times in a pass, next to itself and around others.
TEST(AnyModel, CallsAUnitSeveralTimes) {
  Node around = of(Kind::sequential, {unit(affine()), unit(affine())});
  around.again = true;
  expect_equal_under_every_strategy(
      {.forward_prefetch = 1,
       .backward_prefetch = fsdp::BackwardPrefetch::pre,
       .steps = 2,
       .micro_steps = 2,
       .model = of(Kind::sequential, {{.kind = Kind::repeat, .times = 3, .children = {around}}})});
}

}  // namespace
}  // namespace models
