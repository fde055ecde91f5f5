#include "models/reference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace models {
namespace {

const Slice& slice_of(const Records& records, const std::string& parameter) {
  for (const Slice& slice : records.at(0).slices) {
    if (slice.parameter == parameter) return slice;
  }
  throw std::out_of_range("no parameter " + parameter);
}

Records records_of(const Program& program) { return Reference(program).run().parts.at(0); }

// One row, one layer y = x * weight, and one step are computed by hand.
TEST(Reference, IsPlainTrainingOnOneRank) {
  const Program program{
      .width = 4, .parts = {{.actions = training(1)}}, .model = {.kind = Kind::affine}};
  const nn::Parameter weight({4}, nn::Init::zeros());
  Owned<float> value({4}), gradient({4}), m({4}), v({4}), scale({1});
  value.values = first_values(program, 0, 0, 1, weight);
  const Owned<float> x = input_of(program, 0, {}, Input::rows);
  const Owned<float> dy = input_of(program, 0, {}, Input::gradient);
  double squares = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    gradient.values[i] = x.values[i] * dy.values[i];
    squares += static_cast<double>(gradient.values[i]) * gradient.values[i];
  }
  scale.values[0] = static_cast<float>(std::min(1.0, kClip / (std::sqrt(squares) + 1e-6)));
  const nanofsdp::Context context;
  ops::adamw(*context.compute, {.param = value,
                                .grad = gradient,
                                .m = m,
                                .v = v,
                                .lr = kLearningRate,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .grad_scale = scale});
  const Records records = records_of(program);
  const Slice& got = slice_of(records, "weight");
  EXPECT_EQ(difference(value.values, got.values), "");
  EXPECT_EQ(difference(m.values, got.m), "");
  EXPECT_EQ(difference(v.values, got.v), "");
}

// The sum over two ranks equals the sum over two micro-steps of one rank that has the rows of both.
TEST(Reference, SumsOverRanksAndMicroSteps) {
  Program program{.width = 3,
                  .parts = {{.world = {.ranks = 2}, .actions = training(1, 2)}},
                  .model = {.kind = Kind::linear}};
  const Records each = records_of(program);
  program.parts[0].world.no_sync = true;
  const Records once = records_of(program);
  EXPECT_NE(difference(each, once), "") << "another order has other bits";
  const Slice &a = slice_of(each, "weight"), &b = slice_of(once, "weight");
  for (std::size_t i = 0; i < a.values.size(); ++i) EXPECT_NEAR(a.values[i], b.values[i], 1e-5);
}

// This is PyTorch's `None`: no update, no decay, no moments, no step.
TEST(Reference, LeavesAloneWhatNobodyUsed) {
  const Program program{
      .parts = {{.world = {.ranks = 2}, .actions = training(3)}},
      .model = {.kind = Kind::choose, .picks = {-1, -1, 0}, .children = {{.kind = Kind::linear}}}};
  const Records records = records_of(program);
  EXPECT_EQ(slice_of(records, "0.weight").steps, 1) << "of three";

  const Program never{.parts = {{.actions = training(2)}}, .model = {.kind = Kind::unused}};
  const nn::Parameter weight({never.width}, nn::Init::zeros());
  const Records untouched = records_of(never);
  EXPECT_EQ(difference(first_values(never, 0, 0, 1, weight), slice_of(untouched, "weight").values),
            "");
  EXPECT_EQ(slice_of(untouched, "weight").steps, 0);
}

// A gradient of zero exists: the parameter decays, and its step counts.
TEST(Reference, UpdatesWhatHasAZeroGradient) {
  const Records records =
      records_of({.parts = {{.actions = training(2)}}, .model = {.kind = Kind::silent}});
  EXPECT_EQ(slice_of(records, "weight").steps, 2);
}

// A checkpoint restores values, moments and steps.
TEST(Reference, GoesBackToACheckpoint) {
  Program program{.parts = {{.actions = training(1)}}, .model = {.kind = Kind::affine}};
  const Records before = records_of(program);
  std::vector<Action>& actions = program.parts[0].actions;
  actions.push_back({.what = Do::save});
  for (const Action& action : training(2)) actions.push_back(action);
  actions.push_back({.what = Do::load});
  const Slice &a = slice_of(before, "weight"), b = slice_of(records_of(program), "weight");
  EXPECT_EQ(difference(a.values, b.values), "");
  EXPECT_EQ(difference(a.m, b.m), "");
  EXPECT_EQ(b.steps, 1);
}

// A frozen parameter keeps the sum of its gradients so far.
TEST(Reference, FreezesFromTheNextPassOn) {
  const auto steps_of = [](std::vector<Action> actions) {
    const Records records =
        records_of({.parts = {{.actions = std::move(actions)}}, .model = {.kind = Kind::affine}});
    return slice_of(records, "weight").steps;
  };
  const Action freeze{.what = Do::train, .on = false}, pass, step{.what = Do::step};
  EXPECT_EQ(steps_of({pass, freeze, step, {.what = Do::zero_grad}, pass, step}), 1);
  EXPECT_EQ(steps_of({freeze, pass, step}), 0);
}

// The sums of ranks alone are no gradients yet, under every strategy.
TEST(Reference, StepsWhatIsReduced) {
  const auto steps_of = [](World world, std::vector<Action> actions) {
    return slice_of(records_of({.parts = {{world, actions}}, .model = {.kind = Kind::affine}}),
                    "weight")
        .steps;
  };
  const Action pass, step{.what = Do::step}, not_last{.what = Do::pass, .on = false};
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    const World world{.ranks = 2, .strategy = sharding.strategy, .no_sync = true};
    EXPECT_EQ(steps_of(world, {not_last, step, pass, step}), 1);
  }
  EXPECT_EQ(steps_of({}, {not_last, step, pass, step}), 1);
  EXPECT_EQ(steps_of({.ranks = 2}, {not_last, step, pass, step}), 2) << "each is reduced";
}

TEST(Reference, RefusesWhatFsdpMust) {
  const auto refusal = [](int ranks, std::vector<Action> actions, Program program = {}) {
    program.parts = {{{.ranks = ranks, .strategy = ShardingStrategy::no_shard}, actions}};
    program.model.kind = Kind::affine;
    return Reference(program).run().refusal.value_or("");
  };
  const Action pass, step{.what = Do::step}, thaw{.what = Do::train};
  EXPECT_EQ(refusal(1, {pass, step, pass}), "");
  EXPECT_EQ(refusal(2, {pass, step, pass}), "zero_grad after the last micro-step");
  EXPECT_EQ(refusal(1, {thaw, {.what = Do::evaluate}}, {.model = {.frozen = true}}), "weight");
  EXPECT_EQ(refusal(2, {pass}, {.first = First::mixed}), "first values");
  EXPECT_EQ(refusal(2, {pass}, {.first = First::partial}), "no values");
  EXPECT_EQ(refusal(2, {pass}, {.first = First::shapes}), "");
}

}  // namespace
}  // namespace models
