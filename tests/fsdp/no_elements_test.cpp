#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

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

}  // namespace
}  // namespace nanofsdp::fsdp::no_elements_test
