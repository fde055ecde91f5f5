#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "nn/linear.h"
#include "support/caller.h"

// A parameter may have no elements.

namespace nanofsdp::fsdp::no_elements_test {
namespace {

using testing::Backend;

// A parameter without elements has no values, and needs none.
TEST(FirstValues, OfNoElementsAreNotMissed) {
  struct Empty final : nn::Module {
    Empty() { add("linear", linear), add("none", none); }
    testing::CallerLayer linear;
    std::shared_ptr<nn::Parameter> none =
        std::make_shared<nn::Parameter>(Shape{0, 4}, nn::Init::zeros());

   private:
    Tensor do_forward(nn::Tape& tape, Tensor x) override { return linear.forward(tape, x); }
    Tensor do_backward(nn::Tape& tape, Tensor dy) override { return linear.backward(tape, dy); }
  };
  testing::run_ranks(Backend::local, 2, [](Context& context, auto world) {
    Empty model;
    comm::Mesh mesh(std::move(world));
    std::vector<float> memory(100, 0.1F);
    for (nn::Parameter* p : model.linear.named_parameters())
      p->data = Tensor(memory.data(), p->shape);
    ShardedModel sharded(context, model, mesh, {});
    EXPECT_EQ(testing::whole_weights(sharded).size(), 30U);
  });
}

// It has its whole shape while its module computes, whatever else the unit has.
TEST(NoElements, HaveTheirShapeUnderEveryStrategy) {
  testing::for_all_shardings([](const testing::CallerOptions& options) {
    testing::run_ranks(Backend::local, 4, [&](Context& context, auto world) {
      nn::Linear model({.in = 0, .out = 3, .bias = false});
      comm::Mesh mesh(std::move(world), sharding_of(options.strategy).replicates ? 2 : 0);
      ShardedModel sharded(context, model, mesh,
                           {.strategy = options.strategy, .layout = options.layout});
      nn::Tape tape(context);
      tape.begin(true);
      const Tensor y = sharded.forward(tape, tape.allocate({4, 0}));
      EXPECT_EQ(y.shape(), Shape({4, 3}));
      sharded.backward(tape, y);
    });
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::no_elements_test
