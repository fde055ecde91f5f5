#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "muon/trained.h"
#include "support/caller.h"

// Tests Muon on gradients that the test chooses, groups, and parameters without gradients.

namespace nanofsdp::muon_test {
namespace {

// A linear map whose gradients the test chooses: dy is the gradient, transposed.
struct Chosen {
  Chosen(Context& context, std::unique_ptr<comm::Communicator> world, Shape shape,
         const lesson::MuonOptions& options = {})
      : shape(shape),
        mesh(std::move(world)),
        model({.in = shape[1], .out = shape[0], .bias = false}),
        sharded(context, model, mesh, {.layout = LayoutKind::per_parameter}),
        optimizer(context, sharded.units(), mesh, options),
        tape(context) {}

  // Rank r adds its share of the average.
  void backward(const std::vector<float>& gradient) {
    Owned<float> one({shape[1], shape[1]}), dy({shape[1], shape[0]});
    for (std::int64_t k = 0; k < shape[1]; ++k) {
      one.values[k * shape[1] + k] = 1;
      for (std::int64_t m = 0; m < shape[0]; ++m) {
        dy.values[k * shape[0] + m] = gradient[m * shape[1] + k];
      }
    }
    sharded.zero_grad();
    tape.begin(true);
    sharded.forward(tape, one);
    sharded.backward(tape, dy);
  }

  Shape shape;
  comm::Mesh mesh;
  nn::Linear model;
  fsdp::ShardedModel sharded;
  Muon optimizer;
  nn::Tape tape;
};

// golden.py says how PyTorch makes the same 50 steps, with its iteration in float32.
TEST(Muon, IsPyTorchsWithin1e5) {
  std::ifstream golden(NANOFSDP_SOURCE_DIR "/tests/muon/golden.txt");
  for (const Shape& shape : {Shape{6, 4}, Shape{4, 6}, Shape{5, 5}}) {
    const auto n = static_cast<std::size_t>(shape.numel());
    std::vector<float> expected(n);
    for (float& x : expected) golden >> x;
    ASSERT_TRUE(golden.good());
    testing::run_ranks(Backend::local, 2, [&](Context& context, auto world) {
      Chosen rank(context, std::move(world), shape);
      std::vector<float> weights(n), gradient(n);
      for (std::size_t e = 0; e < n; ++e) {
        weights[e] = static_cast<float>(0.1 * std::sin(static_cast<double>(e + 1)));
      }
      rank.sharded.units()[0].rows()[0].store(0, weights);
      for (int step = 0; step < 50; ++step) {
        for (std::size_t e = 0; e < n; ++e) {
          const double push = std::cos(0.37 * static_cast<double>(e + 1) * (step + 1));
          gradient[e] = static_cast<float>(push) + 0.5F * weights[e];
        }
        rank.backward(gradient);
        rank.optimizer.step(0.01);
        weights = testing::whole_weights(rank.sharded);
      }
      for (std::size_t e = 0; e < n; ++e) EXPECT_NEAR(weights[e], expected[e], 1e-5) << e;
    });
  }
}

// A factor of the gradient, as clipping has it, changes no direction. It changes the momentum.
TEST(Muon, ClipsTheGradient) {
  testing::run_ranks(Backend::local, 2, [&](Context& context, auto world) {
    Chosen rank(context, std::move(world), {4, 4});
    const std::vector<float> zeros(16), gradient(16, 1);
    rank.sharded.units()[0].rows()[0].store(0, zeros);
    rank.backward(gradient);
    Owned<float> half({1});
    half.values[0] = 0.5F;
    rank.optimizer.step(0.01, half);
    for (const float m : rank.optimizer.state(0)[0].span<float>()) EXPECT_FLOAT_EQ(m, 0.025F);
    for (const float v : rank.optimizer.state(0)[1].span<float>()) EXPECT_EQ(v, 0);
  });
}

// Groups have rates and decay of their own, by name.
TEST(Muon, HasGroupsByName) {
  Case c{.ranks = 2};
  c.options.group = [](const nn::Parameter& p) {
    lesson::Group group = lesson::gpt_group(p);
    if (p.name.find("h.1.") != std::string::npos) group.lr_factor = group.weight_decay = 0;
    return group;
  };
  Case before = c;
  before.steps = 0;
  const auto first = sharded(before).weights;
  for (const auto& [name, weights] : sharded(c).weights) {
    EXPECT_EQ(weights == first.at(name), name.find("h.1.") != std::string::npos) << name;
  }
}

// If no rank has a gradient of a matrix, or if it is frozen, it stays as it is.
TEST(Muon, LeavesAMatrixWithoutGradientAlone) {
  testing::for_all_shardings([](const testing::CallerOptions& options) {
    if (sharding_of(options.strategy).splits_update) return;  // Muon refuses it
    const int ranks = sharding_of(options.strategy).replicates ? 4 : 2;
    testing::run_ranks(Backend::local, ranks, [&](Context& context, auto world) {
      testing::InTurn<testing::CallerLayer> model;
      comm::Mesh mesh(std::move(world), ranks == 4 ? 2 : 0);
      fsdp::ShardedModel sharded(context, model, mesh,
                                 {.strategy = options.strategy,
                                  .layout = options.layout,
                                  .wrap_policy = fsdp::is_a<testing::CallerLayer>});
      for (fsdp::ShardedParameters* row : sharded.rows()) {
        for (std::size_t i = 0; i < row->parameters().size(); ++i) {
          const std::int64_t n = row->parameters()[i]->shape.numel();
          row->store(i, testing::random_tensor({n}, 3).values);
        }
      }
      Muon optimizer(context, sharded.units(), mesh);
      const auto before = testing::whole_weights(sharded);
      sharded.zero_grad();
      optimizer.step(0.1);  // nothing has a gradient
      EXPECT_EQ(testing::whole_weights(sharded), before);
      nn::Parameter& frozen = *model.named_parameters()[0];
      frozen.requires_grad = false;
      sharded.zero_grad();
      nn::Tape tape(context);
      Owned<float> x = testing::random_tensor({3, testing::kCallerWidth}, 9);
      tape.begin(true);
      sharded.forward(tape, x);
      sharded.backward(tape, x);
      optimizer.step(0.1);
      sharded.summon_full_parameters([&](const nn::Parameter& p) {
        const auto all = p.data.template span<float>();
        const std::vector<float> first = testing::random_tensor({p.shape.numel()}, 3).values;
        EXPECT_EQ(std::vector<float>(all.begin(), all.end()) == first, &p == &frozen) << p.name;
      });
    });
  });
}

}  // namespace
}  // namespace nanofsdp::muon_test
