#include <gtest/gtest.h>

#include <memory>

#include "nn/module.h"
#include "support/errors.h"

namespace nanofsdp::nn {
namespace {

using testing::expect_error;

// A layer that gives the tape, or its caller, one of these tensors.
struct Leaky final : Module {
  enum class Leak {
    nothing,
    saves,
    saves_a_row,
    returns,
    saves_the_parents,
    parent_saves,
    parent_returns
  } leak;
  std::shared_ptr<Parameter> weight = std::make_shared<Parameter>(Shape{4, 4}, Init::normal(1));
  const Module* parent = nullptr;
  explicit Leaky(Leak leak) : leak(leak) { add("weight", weight); }

  Tensor do_forward(Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    if (leak == Leak::saves) tape.save({x, weight->data});
    if (leak == Leak::saves_a_row) tape.save({x, weight->data.slice(12, 4)});
    if (leak == Leak::saves_the_parents) tape.save({parent->own_parameters()[0].second->data});
    return leak == Leak::returns ? weight->data : y;
  }
  Tensor do_backward(Tape&, Tensor dy) override { return dy; }
};

// A layer with a bias around one of the above.
struct Around final : Module {
  std::shared_ptr<Parameter> bias = std::make_shared<Parameter>(Shape{4}, Init::zeros());
  Leaky child;
  explicit Around(Leaky::Leak leak) : child(leak) {
    add("bias", bias);
    add("child", child);
    child.parent = this;
  }
  Tensor do_forward(Tape& tape, Tensor x) override {
    const Tensor y = child.forward(tape, x);
    if (child.leak == Leaky::Leak::parent_saves) tape.save({child.weight->data.slice(12, 4)});
    return child.leak == Leaky::Leak::parent_returns ? child.weight->data : y;
  }
  Tensor do_backward(Tape& tape, Tensor dy) override { return child.backward(tape, dy); }
};

// FSDP frees that memory between forward and backward. Without FSDP it would work, so the error
// comes without FSDP too.
TEST(Tape, TakesNoMemoryOfAParameter) {
  using Leak = Leaky::Leak;
  const auto forward = [](Leak leak, bool training) {
    Context context;
    Around model(leak);
    model.named_parameters();
    const Buffer memory = context.buffer(MemoryClass::parameter_shards, 20);
    model.child.weight->data = memory.tensor({16}).view({4, 4});
    model.bias->data = memory.tensor({20}).slice(16, 4);
    Tape tape(context);
    tape.begin(training);
    model.forward(tape, tape.allocate({4, 4}));
    tape.end();
  };
  forward(Leak::nothing, true);
  forward(Leak::saves, false);  // an evaluation saves nothing
  for (const Leak leak :
       {Leak::saves, Leak::saves_a_row, Leak::returns, Leak::parent_saves, Leak::parent_returns})
    expect_error<Error>([&] { forward(leak, true); }, "child.weight: expected an activa");
  expect_error<Error>([&] { forward(Leak::returns, false); }, "child.weight");
  expect_error<Error>([&] { forward(Leak::saves_the_parents, true); }, "bias");
}

}  // namespace
}  // namespace nanofsdp::nn
