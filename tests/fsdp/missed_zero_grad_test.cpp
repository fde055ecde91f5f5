#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "fsdp/deferred_init.h"
#include "support/caller.h"
#include "support/errors.h"

// When a backward refuses to add to gradients that are sums over the ranks already.

namespace nanofsdp::fsdp::missed_zero_grad_test {
namespace {

using testing::Backend;

// The first backward of a pass misses it, whichever unit that is. A later one does not: a pass may
// have two forwards and two backwards, and some unit may be used by one of them only.
TEST(ZeroGrad, IsMissedByTheFirstBackwardOfAPass) {
  struct Heads final : nn::Module {
    Heads() { add("trunk", trunk), add("one", one), add("other", other); }
    testing::CallerLayer trunk, one, other;
    nn::Module* used = &one;

   private:
    Tensor do_forward(nn::Tape& tape, Tensor x) override {
      return used->forward(tape, trunk.forward(tape, x));
    }
    Tensor do_backward(nn::Tape& tape, Tensor dy) override {
      return trunk.backward(tape, used->backward(tape, dy));
    }
  };
  std::vector<float> norms;
  for (const Sharding& sharding : kShardings) {
    const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
      Heads model;
      comm::Mesh mesh(std::move(world), sharding.replicates ? 1 : 0);
      ShardedModel sharded(
          context, model, mesh,
          {.strategy = sharding.strategy, .wrap_policy = is_a<testing::CallerLayer>});
      Generator generator(3);
      deferred_init(context, sharded.units(), generator);
      nn::Tape tape(context);
      auto x = testing::random_tensor({2, testing::kCallerWidth}, 10 + context.rank);
      auto y = testing::random_tensor({2, testing::kCallerWidth}, 20 + context.rank);
      auto dx = x, dy = y;
      tape.begin(true);
      model.used = &model.one, model.forward(tape, x);
      model.used = &model.other, model.forward(tape, y);
      model.backward(tape, dy);
      model.used = &model.one, model.backward(tape, dx);
      tape.end_backward();
      sharded.clip(0);
      const float norm = *sharded.grad_norm().f32();
      // Without zero_grad, a unit alone cannot add to what is a sum over the ranks already.
      tape.begin(true);
      model.trunk.forward(tape, x);
      const auto backward = [&] { model.trunk.backward(tape, dx), tape.end_backward(); };
      if (!sharding.gradients || sharding.replicates) {
        testing::expect_error<Error>(backward, "zero_grad");
        mesh.abort("the test is over");
      } else {
        backward();
      }
      return std::vector{norm};
    };
    norms.push_back(testing::run_ranks(Backend::local, 2, body)[0][0]);
    EXPECT_NEAR(norms.back(), norms.front(), 1e-5) << sharding.name;
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp::missed_zero_grad_test
