#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "support/caller.h"

// Tests gradients that lack a part, or the share of a rank.

namespace nanofsdp::fsdp::vanished_test {
namespace {

using testing::CallerOptions;
using testing::Owned;

// y = w x with two weights. Some ranks have no gradient of them.
class Weights final : public nn::Module {
 public:
  explicit Weights(bool is_used) : is_used_(is_used) { add("weight", weight_); }

 private:
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override {
    if (!is_used_) return dy;
    const Tensor grad = weight_->grad_to_add_to();
    for (int i = 0; i < 2; ++i) grad.f32()[i] += dy.f32()[i];
    return dy;
  }
  bool is_used_;
  std::shared_ptr<nn::Parameter> weight_ =
      std::make_shared<nn::Parameter>(Shape{1, 2}, nn::Init::ones());
};

// A gradient does not exist only if no element exists. Here one element averages to -1/2, and the
// other rounds to -0 when it is averaged. The rank that owns both has no gradient of its own.
TEST(Gradient, OfWhichOneElementVanishesIsNotNone) {
  testing::for_all_shardings([](const CallerOptions& options) {
    const int ranks = sharding_of(options.strategy).replicates ? 4 : 2;
    testing::run_ranks(
        testing::Backend::local, ranks,
        [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          comm::Mesh mesh(std::move(world), sharding_of(options.strategy).replicates ? 2 : 0);
          Weights model(/*is_used=*/context.rank == 1);
          ShardedModel sharded(context, model, mesh,
                               {.strategy = options.strategy, .layout = options.layout});
          sharded.rows()[0]->store(0, std::vector<float>{1, 1});
          AdamW optimizer(context, sharded.units(), {});
          nn::Tape tape(context);
          Owned<float> x({1, 2}), dy({1, 2});
          dy.values = {-1, -0x1p-149F};
          sharded.zero_grad();
          tape.begin(true);
          sharded.forward(tape, x);
          sharded.backward(tape, dy);
          const ShardedParameters& row = *sharded.rows()[0];
          if (!row.owned(0).in_shard.empty()) {
            EXPECT_TRUE(std::signbit(row.gradient_shard().f32()[1]));
            EXPECT_EQ(row.gradient_shard().f32()[1], 0) << "it has vanished";
            EXPECT_TRUE(row.have_gradients()[0]);
          }
          optimizer.step(0.1);
          const std::vector<float> weights = testing::whole_weights(sharded);
          EXPECT_GT(weights[0], 1);
          EXPECT_LT(weights[1], 1) << "it decays";
        });
  });
}

using Layers = std::vector<std::unique_ptr<testing::CallerLayer>>;

// Four layers that are called forth and back: each is called twice, and the first layer is the
// first and the last call.
class Palindrome final : public nn::Module {
 public:
  Palindrome() {
    for (int i = 0; i < 4; ++i) {
      layers_.push_back(std::make_unique<testing::CallerLayer>());
      add(std::to_string(i), *layers_.back());
    }
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (const auto& layer : layers_) x = layer->forward(tape, x);
    for (std::size_t i = 4; i-- > 0;) x = layers_[i]->forward(tape, x);
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor d) override {
    for (const auto& layer : layers_) d = layer->backward(tape, d);
    for (std::size_t i = 4; i-- > 0;) d = layers_[i]->backward(tape, d);
    return d;
  }
  Layers layers_;
};

// Units that are used twice hold their gradient slots until the second backward, so a pass needs
// more slots than planned. After the pass the additional slots are freed.
TEST(Slots, BeyondThosePlannedAreFreeAfterThePass) {
  testing::for_all_shardings([](const CallerOptions& options) {
    const int ranks = sharding_of(options.strategy).replicates ? 4 : 2;
    testing::run_ranks(
        testing::Backend::local, ranks,
        [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          comm::Mesh mesh(std::move(world), sharding_of(options.strategy).replicates ? 2 : 0);
          Palindrome model;
          ShardedModel sharded(context, model, mesh,
                               {.strategy = options.strategy,
                                .layout = options.layout,
                                .wrap_policy = is_a<testing::CallerLayer>});
          testing::store_random(sharded, 1);
          const auto reserved = [&](MemoryClass c) { return context.ledger.count(c).reserved; };
          const auto gradients = reserved(MemoryClass::unsharded_gradients);
          const auto parameters = reserved(MemoryClass::unsharded_parameters);
          nn::Tape tape(context);
          for (int step = 0; step < 2; ++step) {
            Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3), dy = x;
            sharded.zero_grad();
            tape.begin(true);
            sharded.forward(tape, x);
            sharded.backward(tape, dy);
            EXPECT_EQ(reserved(MemoryClass::unsharded_gradients), gradients);
            EXPECT_EQ(reserved(MemoryClass::unsharded_parameters), parameters);
          }
          const auto peak = context.ledger.count(MemoryClass::unsharded_gradients).reserved_peak;
          if (sharding_of(options.strategy).gradients) {
            EXPECT_GT(peak, gradients) << "the pass needed more";
          }
        });
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::vanished_test
