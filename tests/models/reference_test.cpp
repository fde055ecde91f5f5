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

// One row, one layer y = x * weight, one step, written out.
TEST(Reference, IsPlainTrainingOnOneRank) {
  const Program program{.width = 4, .model = {.kind = Kind::affine}};
  const nn::Parameter weight({4}, nn::Init::zeros());
  Owned<float> value = first_values(program, weight, 0), gradient({4}), m({4}), v({4}), scale({1});
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
  const Records records = Reference(program).run();
  const Slice& got = slice_of(records, "weight");
  EXPECT_EQ(difference(value.values, got.values), "");
  EXPECT_EQ(difference(m.values, got.m), "");
  EXPECT_EQ(difference(v.values, got.v), "");
}

// The sum over two ranks is that over two micro-steps of one rank, which has the rows of both.
TEST(Reference, SumsOverRanksAndMicroSteps) {
  Program program{.width = 3, .ranks = 2, .micro_steps = 2, .model = {.kind = Kind::linear}};
  const Records each = Reference(program).run();
  program.no_sync = true;
  const Records once = Reference(program).run();
  EXPECT_NE(difference(each, once), "") << "another order has other bits";
  const Slice &a = slice_of(each, "weight"), &b = slice_of(once, "weight");
  for (std::size_t i = 0; i < a.values.size(); ++i) EXPECT_NEAR(a.values[i], b.values[i], 1e-5);
}

// PyTorch's `None`: no update, no decay, no moments, no step.
TEST(Reference, LeavesAloneWhatNobodyUsed) {
  const Program program{
      .ranks = 2,
      .steps = 3,
      .model = {
          .kind = Kind::choose, .picks = {-1, -1, -1, 0}, .children = {{.kind = Kind::linear}}}};
  const Records records = Reference(program).run();
  EXPECT_EQ(slice_of(records, "0.weight").steps, 1) << "of three";

  const Program never{.steps = 2, .model = {.kind = Kind::unused}};
  const nn::Parameter weight({never.width}, nn::Init::zeros());
  const Records untouched = Reference(never).run();
  EXPECT_EQ(difference(first_values(never, weight, 0).values, slice_of(untouched, "weight").values),
            "");
  EXPECT_EQ(slice_of(untouched, "weight").steps, 0);
}

// A gradient that is zero is one: it decays, and counts.
TEST(Reference, UpdatesWhatHasAZeroGradient) {
  const Records records = Reference({.steps = 2, .model = {.kind = Kind::silent}}).run();
  EXPECT_EQ(slice_of(records, "weight").steps, 2);
}

}  // namespace
}  // namespace models
