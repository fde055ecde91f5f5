#include "nn/parameter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/linear.h"
#include "support/tensors.h"
#include "support/whole_model.h"

namespace nanofsdp::nn {
namespace {

// A parameter has a gradient only after a backward has added to it, and a frozen parameter never
// gets one.
TEST(Parameter, HasAGradientOnceBackwardHasAddedToIt) {
  Parameter weight({2}, Init::zeros());
  weight.grad_to_add_to();
  EXPECT_FALSE(weight.has_grad) << "there is no memory for one";
  testing::Owned<float> memory({2}, 3.0F);
  weight.show_grad(memory);
  EXPECT_EQ(weight.grad().f32()[1], 3);
  EXPECT_FALSE(weight.has_grad) << "to look is not to add";
  EXPECT_EQ(weight.grad_to_add_to().f32(), memory.values.data());
  EXPECT_TRUE(weight.has_grad);
}

// Without FSDP, too, a frozen parameter gets no gradient, and an older one stays.
TEST(Parameter, IsFrozenWithoutFsdpToo) {
  Context context;
  Tape tape(context);
  auto x = testing::random_tensor({2, 3}, 1), dy = testing::random_tensor({2, 4}, 2);
  Linear linear({.in = 3, .out = 4});
  testing::WholeModel memory(linear);
  for (std::size_t frozen = 0; frozen < 4; ++frozen) {  // a bit for each parameter
    for (std::size_t i = 0; i < 2; ++i) {
      memory.parameters[i]->requires_grad = (frozen >> i & 1) == 0;
      memory.parameters[i]->has_grad = false;
      for (float& g : memory.parameters[i]->grad().span<float>()) g = 100;
    }
    tape.begin(/*training=*/true);
    linear.forward(tape, x);
    linear.backward(tape, dy);
    tape.end_backward();
    for (std::size_t i = 0; i < 2; ++i) {
      const bool trains = memory.parameters[i]->requires_grad;
      EXPECT_EQ(memory.parameters[i]->has_grad, trains);
      for (const float g : memory.parameters[i]->grad().span<float>()) EXPECT_EQ(g == 100, !trains);
    }
  }
}

// Holds a tied weight at two places: one near the root, and one further down.
struct Place final : Module {
  Place(std::string name, std::shared_ptr<Parameter> weight) { add(std::move(name), weight); }
  Place(std::string name, Module& child) { add(std::move(name), child); }
  Place(Module& near, Module& far) { add("a", near), add("far", far); }
  Tensor do_forward(Tape&, Tensor x) override { return x; }
  Tensor do_backward(Tape&, Tensor dy) override { return dy; }
};

// Whichever modules are asked in whichever order, the longest of the paths remains.
TEST(Parameter, HasTheLongestPathThatAModuleGaveIt) {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    const auto weight = std::make_shared<Parameter>(Shape{1}, Init::zeros());
    Place near("w", weight), deep("weight", weight), far("inner", deep), root(near, far);
    const std::pair<Module*, std::string> asked[] = {
        {&root, "a.w"}, {&near, "w"}, {&far, "inner.weight"}, {&deep, "weight"}};
    std::string longest;
    for (const int i : order) {
      asked[i].first->named_parameters();
      if (asked[i].second.size() > longest.size()) longest = asked[i].second;
      EXPECT_EQ(weight->name, longest);
    }
  } while (std::ranges::next_permutation(order).found);
}

}  // namespace
}  // namespace nanofsdp::nn
