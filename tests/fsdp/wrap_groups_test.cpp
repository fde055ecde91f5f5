#include <gtest/gtest.h>

#include "base/check.h"
#include "fsdp/wrap.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "support/plain_models.h"

// Which modules may form one unit.

namespace nanofsdp::fsdp::wrap_groups_test {
namespace {

constexpr std::int64_t kWidth = 5;

using Layer = testing::LinearLayer<kWidth>;

// A weight that two modules share may lie in the unit of both.
TEST(Groups, MayShareAWeight) {
  struct Tied final : nn::Module {
    Tied() : last(first.own_parameters()[0].second) {
      add("first", first), add("middle", middle), add("last", last);
    }
    nn::Linear first{{.in = kWidth, .out = kWidth, .bias = false}};
    Layer middle;
    nn::Linear last;

   private:
    Tensor do_forward(nn::Tape& tape, Tensor x) override {
      return last.forward(tape, middle.forward(tape, first.forward(tape, x)));
    }
    Tensor do_backward(nn::Tape& tape, Tensor dy) override {
      return first.backward(tape, middle.backward(tape, last.backward(tape, dy)));
    }
  } model;
  const auto apart = [&](const nn::Module& module) {
    return &module == &model.first || &module == &model.last;
  };
  EXPECT_THROW(wrap(model, apart), Error);
  const auto units = wrap(model, [&](const nn::Module& module) {
    UnitOptions unit = apart(module);
    unit.group = "tied";
    return unit;
  });
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[0].name, "tied");
  EXPECT_EQ(units[0].parameters.size(), 1u);
}

// A module with two children of one name, which may share a weight.
struct Twins final : nn::Module {
  explicit Twins(bool tied)
      : two(tied ? nn::Linear(one.own_parameters()[0].second) : nn::Linear(kSizes)) {
    add("twin", one), add("twin", two);
  }
  static constexpr nn::Linear::Options kSizes{.in = kWidth, .out = kWidth, .bias = false};
  nn::Linear one{kSizes}, two;

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    return two.forward(tape, one.forward(tape, x));
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    return one.backward(tape, two.backward(tape, dy));
  }
};

// They are two units, because no group has their name. So they may not share a weight.
TEST(Groups, AreNotMadeOfEqualPaths) {
  Twins apart(/*tied=*/false), tied(/*tied=*/true);
  EXPECT_EQ(wrap(apart, is_a<nn::Linear>).size(), 3u);
  testing::expect_error<Error>([&] { wrap(tied, is_a<nn::Linear>); }, "tied parameter twin.weight");
}

TEST(Groups, AreOfModulesBesideEachOtherWithEqualOptions) {
  testing::InTurn<Layer> other;
  const auto nested = [](const nn::Module& module) {
    UnitOptions unit = is_a<Layer>(module) || is_a<nn::Linear>(module);
    unit.group = "one";
    return unit;
  };
  testing::expect_error<Error>(
      [&] { wrap(other, nested); },
      "group one: expected modules with equal options, none inside another");
  const auto unequal = [&](const nn::Module& module) {
    UnitOptions unit = is_a<Layer>(module);
    unit.group = "one";
    if (&module == &other.second) unit.reshard_after_forward = false;
    return unit;
  };
  testing::expect_error<Error>([&] { wrap(other, unequal); }, "at second");
}

}  // namespace
}  // namespace nanofsdp::fsdp::wrap_groups_test
