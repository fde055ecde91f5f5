#include "nn/module.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/tape.h"
#include "support/errors.h"
#include "support/tensors.h"
#include "support/whole_model.h"

namespace nanofsdp::nn {
namespace {

using testing::expect_error;

// A layer that looks rows up and then multiplies by the same table, as a tied head does.
class Tied final : public Module {
 public:
  Tied() : table_(5, 3, Init::normal(0.02)), head_(table_.weight()) {
    add("table", table_);
    add("head", head_);
  }

 private:
  Tensor do_forward(Tape& tape, Tensor x) override {
    return head_.forward(tape, table_.forward(tape, x));
  }
  Tensor do_backward(Tape& tape, Tensor dy) override {
    return table_.backward(tape, head_.backward(tape, dy));
  }
  Embedding table_;
  Linear head_;
};

TEST(Module, NamesATiedParameterOnceAtItsFirstPlace) {
  Tied module;
  const std::vector<Parameter*> parameters = module.named_parameters();
  ASSERT_EQ(parameters.size(), 1u);
  EXPECT_EQ(parameters[0]->name, "table.weight");
}

TEST(Module, CallsItsHooksAroundForwardAndBackward) {
  Context context;
  Tape tape(context);
  Tied module;
  testing::WholeModel memory(module);
  std::string calls;
  module.hooks = {.pre_forward = [&](Tape&) { calls += "f"; },
                  .post_forward = [&](Tape&) { calls += "F"; },
                  .pre_backward = [&](Tape&) { calls += "b"; },
                  .post_backward = [&](Tape&) { calls += "B"; }};
  testing::Owned<std::int32_t> tokens({4}, 2);
  tape.begin(true);
  module.backward(tape, module.forward(tape, tokens));
  tape.end_backward();
  EXPECT_EQ(calls, "fFbB");
}

// Two layers. The backward of a confused module calls them in the order of forward, which is wrong.
class TwoLayers final : public Module {
 public:
  explicit TwoLayers(std::int64_t out, bool confused = false)
      : second_({.in = 40, .out = out, .bias = false}), confused_(confused) {
    add("first", first_);
    add("second", second_);
  }

 private:
  Tensor do_forward(Tape& tape, Tensor x) override {
    return second_.forward(tape, first_.forward(tape, x));
  }
  Tensor do_backward(Tape& tape, Tensor dy) override {
    if (confused_) return second_.backward(tape, first_.backward(tape, dy));
    return first_.backward(tape, second_.backward(tape, dy));
  }
  Linear first_{{.in = 40, .out = 40, .bias = false}};
  Linear second_;
  bool confused_;
};

// A pass of TwoLayers: the memory that its forward holds on the tape, and all results.
struct PassOfTwoLayers {
  std::int64_t held = 0;  // bytes
  std::vector<float> values;
};

PassOfTwoLayers pass_of_two_layers(std::int64_t out, bool training, bool recompute) {
  Context context;
  Tape tape(context);
  TwoLayers module(out);
  module.recompute = recompute;
  testing::WholeModel memory(module);
  for (Parameter* p : memory.parameters) {
    std::ranges::copy(testing::random_tensor(p->shape, 5).values, p->data.f32());
  }
  auto x = testing::random_tensor({64, 40}, 1), dy = testing::random_tensor({64, out}, 2);
  PassOfTwoLayers result;
  const auto pass = [&] {
    tape.begin(training);
    const Tensor before = tape.allocate({1});
    const std::span<float> y = module.forward(tape, x).span<float>();
    result.values.assign(y.begin(), y.end());
    result.held = static_cast<const std::byte*>(tape.allocate({1}).raw()) -
                  static_cast<const std::byte*>(before.raw()) - 64;
    if (!training) return tape.end();
    const std::span<float> dx = module.backward(tape, dy).span<float>();
    result.values.insert(result.values.end(), dx.begin(), dx.end());
    tape.end_backward();
  };
  pass();  // the first pass, in which every tensor has a buffer of its own
  const std::vector<float> first = result.values;
  for (Parameter* p : memory.parameters) std::ranges::fill(p->grad().span<float>(), 0.0F);
  pass();
  EXPECT_EQ(result.values, first);
  const MemoryCount taken = context.ledger.count(MemoryClass::activations);
  EXPECT_EQ(taken.reserved, taken.reserved_peak);
  for (Parameter* p : memory.parameters) {
    if (!training) continue;
    EXPECT_TRUE(p->has_grad);
    const std::span<const float> grad = p->grad().span<float>();
    result.values.insert(result.values.end(), grad.begin(), grad.end());
  }
  return result;
}

// Recompute keeps only the input, and gives the same gradients for all shapes.
TEST(Module, RecomputeChangesNothingButMemory) {
  for (const std::int64_t out : {40, 24, 56}) {
    const PassOfTwoLayers kept = pass_of_two_layers(out, true, false);
    const PassOfTwoLayers again = pass_of_two_layers(out, true, true);
    EXPECT_EQ(again.values, kept.values) << out;
    EXPECT_EQ(kept.held, 64 * out * 4 + 64 * 40 * 4) << "the output, and what is between";
    EXPECT_EQ(again.held, 64 * out * 4) << "the output";
  }
}

// Outside training, the temporaries of a module are freed when it returns.
TEST(Module, AnEvaluationHoldsTheResultOfAModule) {
  for (const std::int64_t out : {40, 24, 56}) {
    for (const bool recompute : {false, true}) {
      const PassOfTwoLayers seen = pass_of_two_layers(out, false, recompute);
      EXPECT_EQ(seen.held, 64 * out * 4);
      const std::vector<float> trained = pass_of_two_layers(out, true, recompute).values;
      EXPECT_TRUE(std::ranges::equal(seen.values, std::span(trained).first(seen.values.size())));
    }
  }
}

// Returns its input, and then a part of its input.
class Passes final : public Module {
 public:
  bool whole = true;

 private:
  Tensor do_forward(Tape& tape, Tensor x) override {
    tape.allocate({100});
    return whole ? x : x.slice(1, 2);
  }
  Tensor do_backward(Tape&, Tensor dy) override { return dy; }
};

// The result of a module may be older than its temporaries, or a part of an older tensor.
TEST(Module, AnEvaluationDoesNotMoveWhatIsNoTemporary) {
  Context context;
  Tape tape(context);
  Passes module;
  testing::Owned<float> mine({3});
  for (int pass = 0; pass < 2; ++pass) {
    tape.begin(false);
    for (const Tensor& x : {tape.allocate({3}), Tensor(mine)}) {
      for (const bool whole : {true, false}) {
        module.whole = whole;
        const Tensor y = module.forward(tape, x);
        EXPECT_EQ(y.raw(), x.f32() + (whole ? 0 : 1));
      }
    }
    tape.end();
  }
  EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved, 64 + 448);
}

// The caller of a module may need the gradient of its output again, for example for a residual.
TEST(Module, RecomputeLeavesTheGradientOfItsOutput) {
  Context context;
  Tape tape(context);
  Linear layer({.in = 4, .out = 4});
  layer.recompute = true;
  testing::WholeModel memory(layer);
  auto x = testing::random_tensor({3, 4}, 1), dy = testing::random_tensor({3, 4}, 2);
  const std::vector<float> before = dy.values;
  tape.begin(true);
  layer.forward(tape, x);
  layer.backward(tape, dy);
  tape.end_backward();
  EXPECT_EQ(dy.values, before);
}

TEST(Tape, NamesWhoRestoresWhatAnotherSaved) {
  Context context;
  Tape tape(context);
  TwoLayers module(40, /*confused=*/true);
  const testing::WholeModel memory(module);
  auto x = testing::random_tensor({2, 40}, 1);
  tape.begin(true);
  const auto pass = [&] { module.backward(tape, module.forward(tape, x)); };
  expect_error<Error>(pass, "backward of first");
  tape.end();
  tape.begin(true);
  expect_error<Error>(pass, "1 that second saved last");
  tape.end();
}

// Modules two levels down are named by their whole path from the outermost module.
class Outer final : public Module {
 public:
  Outer() { add("inner", inner_); }

 private:
  Tensor do_forward(Tape& tape, Tensor x) override { return inner_.forward(tape, x); }
  Tensor do_backward(Tape& tape, Tensor dy) override { return inner_.backward(tape, dy); }
  TwoLayers inner_{40, /*confused=*/true};
};

TEST(Tape, NamesModulesByTheirWholePath) {
  Context context;
  Tape tape(context);
  Outer module;
  const testing::WholeModel memory(module);
  auto x = testing::random_tensor({2, 40}, 1);
  tape.begin(true);
  const auto pass = [&] { module.backward(tape, module.forward(tape, x)); };
  expect_error<Error>(pass, "backward of inner.first");
  tape.end();
  tape.begin(true);
  expect_error<Error>(pass, "1 that inner.second saved last");
  tape.end();
}

// A call on an inner module renames no parameter, and a call on an outer one gives the longer path.
TEST(Module, NamesParametersByTheLongestPathThatWasAsked) {
  Outer module;
  module.children()[0].second->named_parameters();
  EXPECT_EQ(module.named_parameters()[0]->name, "inner.first.weight");
  const std::vector<Parameter*> inside = module.children()[0].second->named_parameters();
  EXPECT_EQ(inside[1]->name, "inner.second.weight");
}

// The gradient of a tied weight is the sum of both uses. It is compared with differences of f, half
// the sum of squares of the output, whose gradient is the output itself.
TEST(Module, AddsBothUsesOfATiedWeight) {
  Context context;
  Tape tape(context);
  Tied module;
  testing::WholeModel memory(module);
  const std::vector<std::int32_t> index = {0, 3, 3};
  auto weight = testing::random_tensor({5, 3}, 7);
  std::ranges::copy(weight.values, memory.parameters[0]->data.f32());
  testing::Owned<std::int32_t> tokens({3});
  tokens.values = index;
  tape.begin(true);
  module.backward(tape, module.forward(tape, tokens));
  tape.end_backward();
  const auto f = [&](const std::vector<double>& w) {
    double sum = 0;
    for (const std::int32_t n : index) {
      for (int v = 0; v < 5; ++v) {
        double y = 0;
        for (int c = 0; c < 3; ++c) y += w[n * 3 + c] * w[v * 3 + c];
        sum += y * y / 2;
      }
    }
    return sum;
  };
  EXPECT_LE(testing::relative_l2(memory.parameters[0]->grad().span<float>(),
                                 testing::finite_differences(weight.doubles(), f)),
            1e-6);
}

}  // namespace
}  // namespace nanofsdp::nn
