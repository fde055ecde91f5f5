#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/tensors.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::Owned;
using testing::TinyTraining;

bool never(const nn::Module&) { return false; }

// y = w x with one weight on several ranks, so some ranks own only padding.
struct Scalar {
  Scalar(Context& context, std::unique_ptr<comm::Communicator> world, const Options& options)
      : context(context),
        mesh(std::move(world)),
        sharded(context, model, mesh, options),
        tape(context) {
    sharded.units()[0].rows()[0].store(0, std::vector<float>{2});
  }

  // One micro-step with gradient `g`: x = 1, dy = g.
  void micro_step(float g, bool last = true) {
    Owned<float> x({1, 1}), dy({1, 1});
    x.values[0] = 1;
    dy.values[0] = g;
    tape.begin(true);
    sharded.forward(tape, x);
    sharded.backward(tape, dy, last);
  }

  // The reduced gradient of the weight, or 0 if this rank does not have it.
  float gradient() {
    const ShardedParameters& flat = sharded.units()[0].rows()[0];
    const Range mine = flat.owned(0).in_shard;
    return mine.empty() ? 0 : flat.gradient_shard().f32()[mine.begin];
  }

  Context& context;
  nn::Linear model{{.in = 1, .out = 1, .bias = false}};
  comm::Mesh mesh;
  ShardedModel sharded;
  nn::Tape tape;
};

// Four micro-steps of ones on four ranks give 4: the sum over micro-steps of the mean over ranks.
// If earlier sums were scaled again, it would give 5.3125 (1 + 1/4 + ... of the sum).
TEST(Average, ScalesWhatArrivesAndNeverWhatWasAddedUp) {
  for (ShardingStrategy strategy :
       {ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
        ShardingStrategy::shard_gradients, ShardingStrategy::shard_grad_op,
        ShardingStrategy::full_shard}) {
    for (const bool no_sync : {false, true}) {
      testing::run_ranks(
          Backend::local, 4, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
            Scalar scalar(
                context, std::move(world),
                {.strategy = strategy, .no_sync = no_sync, .alignment = 1, .wrap_policy = never});
            scalar.sharded.zero_grad();
            for (int m = 0; m < 4; ++m) scalar.micro_step(1, m == 3);
            const bool owner = context.rank == 0 || strategy == ShardingStrategy::no_shard;
            EXPECT_EQ(scalar.gradient(), owner ? 4 : 0) << name_of(strategy) << no_sync;
          });
    }
  }
}

// Across groups the result is the mean over all ranks, not the sum of the groups' means.
void expect_mean_over_all_ranks(ShardingStrategy strategy) {
  testing::run_ranks(
      Backend::local, 4, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        nn::Linear model({.in = 1, .out = 1, .bias = false});
        comm::Mesh mesh(std::move(world), 2);
        ShardedModel sharded(context, model, mesh,
                             {.strategy = strategy, .alignment = 1, .wrap_policy = never});
        Unit& unit = sharded.units()[0];
        unit.rows()[0].store(0, std::vector<float>{2});
        nn::Tape tape(context);
        Owned<float> x({1, 1}), dy({1, 1});
        x.values[0] = 1;
        dy.values[0] = static_cast<float>(1 << context.rank);  // 1, 2, 4, 8
        sharded.zero_grad();
        tape.begin(true);
        sharded.forward(tape, x);
        sharded.backward(tape, dy);
        if (!unit.rows()[0].owned(0).in_shard.empty()) {
          EXPECT_EQ(unit.rows()[0].gradient_shard().f32()[0], 15.0f / 4);
        }
        // Replicas hold the same gradient, and the norm counts it once.
        sharded.clip(0);
        EXPECT_EQ(*sharded.grad_norm().f32(), 15.0f / 4);
      });
}
TEST(Average, IsOverAllRanksOfAHybridMesh) {
  expect_mean_over_all_ranks(ShardingStrategy::hybrid_shard);
  expect_mean_over_all_ranks(ShardingStrategy::hybrid_shard_optimizer);
}

// Ranks have different numbers of tokens. Each divides by the tokens of all ranks, so the sum is
// the mean over tokens. The mean of the ranks' means is another number.
TEST(Average, OverTokensIsNotTheMeanOfMeans) {
  const auto run = [](comm::ReduceOp reduction, bool by_all) {
    return testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          Scalar scalar(context, std::move(world),
                        {.reduction = reduction, .alignment = 1, .wrap_policy = never});
          scalar.sharded.zero_grad();
          // Rank 0 has one token with slope 1, and rank 1 has three with slope 5.
          const float sum = context.rank == 0 ? 1 : 15, tokens = context.rank == 0 ? 1 : 3;
          scalar.micro_step(sum / (by_all ? 4 : tokens));
          return std::vector<float>{scalar.gradient()};
        })[0][0];
  };
  EXPECT_EQ(run(comm::ReduceOp::sum, true), 4);       // 16 / 4
  EXPECT_EQ(run(comm::ReduceOp::average, false), 3);  // (1 + 5) / 2
}

// A rank that owns only padding takes part in everything: norm, clip, step.
TEST(PaddingOnly, RankTrainsAlong) {
  for (const Backend backend : testing::backends()) {
    testing::run_ranks(backend, 3, [](Context& context, std::unique_ptr<comm::Communicator> world) {
      Scalar scalar(context, std::move(world), {.alignment = 1, .wrap_policy = never});
      GradNorm norm(context, scalar.mesh);
      AdamW optimizer(context, scalar.sharded.units(), {.weight_decay = 0});
      scalar.sharded.zero_grad();
      scalar.micro_step(static_cast<float>(3 * context.rank));
      norm.compute(scalar.sharded.units(), 1.5);
      EXPECT_EQ(*norm.norm().f32(), 3);
      EXPECT_NEAR(*norm.coefficient().f32(), 0.5, 1e-6);
      optimizer.step(0.1, norm.coefficient());
      EXPECT_EQ(optimizer.parameter_steps(0)[0], context.rank == 0 ? 1 : 0);
      scalar.sharded.summon_full_parameters([](const nn::Parameter& p) {
        // Adam's first step is as large as the learning rate.
        EXPECT_NEAR(*p.data.f32(), 1.9, 1e-6);
      });
    });
  }
}

// Every strategy adds up the squares of each shard separately, even if a rank has the whole
// gradient. Here each square of the second shard would vanish beside the first shard's sum. Their
// own sum does not vanish, and decides to which float32 the norm is rounded.
TEST(Norm, IsAddedUpByShardsWhoeverHasTheGradient) {
  std::vector<float> g(24);
  // The sum of squares, 1 + 2^-24, lies between two floats.
  g[0] = 1, g[1] = g[2] = 0x1p-12f, g[3] = 0x1p-24f;
  std::fill_n(g.begin() + 12, 8, 0x1p-27f);  // the shard of the other rank
  for (const auto strategy : {ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
                              ShardingStrategy::shard_gradients, ShardingStrategy::full_shard}) {
    const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
      nn::Linear model({.in = 24, .out = 1, .bias = false});
      comm::Mesh mesh(std::move(world));
      ShardedModel sharded(context, model, mesh, {.strategy = strategy, .wrap_policy = never});
      sharded.units()[0].rows()[0].store(0, g);
      nn::Tape tape(context);
      Owned<float> x({1, 24}), dy({1, 1}, 1);
      std::ranges::copy(g, x.values.begin());
      sharded.zero_grad();
      tape.begin(true);
      sharded.forward(tape, x);
      sharded.backward(tape, dy);
      sharded.clip(0);
      EXPECT_EQ(*sharded.grad_norm().f32(), 1 + 0x1p-23f);
    };
    testing::run_ranks(Backend::local, 2, body);
  }
}

// With and without set_to_none, the gradients are the same. Zeros can be read before any reduction.
TEST(ZeroGrad, ToNoneAndToZeroGiveTheSameGradients) {
  for (ShardingStrategy strategy :
       {ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
        ShardingStrategy::shard_gradients, ShardingStrategy::full_shard}) {
    testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          Scalar scalar(context, std::move(world),
                        {.strategy = strategy, .alignment = 1, .wrap_policy = never});
          std::vector<float> gradients;
          for (const bool to_none : {true, false}) {
            scalar.sharded.zero_grad(to_none);
            if (!to_none) {
              EXPECT_EQ(scalar.gradient(), 0);
            }
            for (int m = 0; m < 3; ++m) {
              scalar.micro_step(static_cast<float>(m + 2 * context.rank), m == 2);
            }
            gradients.push_back(scalar.gradient());
          }
          EXPECT_EQ(gradients[0], gradients[1]);
          if (context.rank == 0) {
            EXPECT_EQ(gradients[0], 6) << name_of(strategy);
          }
        });
  }
}

// Without zero_grad, the gradients of the last step stay in the sum. If they are sums over all
// ranks already, they would be summed again, so it is an error.
TEST(ZeroGrad, IsMissed) {
  for (ShardingStrategy strategy :
       {ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
        ShardingStrategy::shard_gradients, ShardingStrategy::full_shard}) {
    testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          Scalar scalar(context, std::move(world),
                        {.strategy = strategy, .alignment = 1, .wrap_policy = never});
          scalar.sharded.zero_grad();
          scalar.micro_step(1);
          if (!sharding_of(strategy).gradients) {
            testing::expect_error<Error>([&] { scalar.micro_step(2); }, "zero_grad");
            return;
          }
          scalar.micro_step(2);
          EXPECT_EQ(scalar.gradient(), context.rank == 0 ? 3 : 0);
        });
  }
  for (const ShardingStrategy strategy :
       {ShardingStrategy::hybrid_shard, ShardingStrategy::hybrid_shard_optimizer}) {
    testing::run_ranks(
        Backend::local, 4, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          TinyTraining t(context, std::move(world), {.strategy = strategy, .shard_size = 2});
          t.step(0);
          testing::expect_error<Error>([&] { t.micro_step(1, 0); }, "zero_grad");
        });
  }
}

// A step that was given up after some micro-steps leaves nothing, even if its gradients are still
// whole.
TEST(ZeroGrad, ForgetsAStepThatWasGivenUp) {
  for (ShardingStrategy strategy :
       {ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
        ShardingStrategy::shard_gradients, ShardingStrategy::shard_grad_op,
        ShardingStrategy::full_shard}) {
    for (const bool no_sync : {false, true}) {
      testing::run_ranks(
          Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
            Scalar scalar(
                context, std::move(world),
                {.strategy = strategy, .no_sync = no_sync, .alignment = 1, .wrap_policy = never});
            scalar.sharded.zero_grad();
            scalar.micro_step(8, /*last=*/false);
            scalar.sharded.zero_grad();
            scalar.micro_step(1, /*last=*/false);
            scalar.micro_step(2);
            const bool owner = context.rank == 0 || strategy == ShardingStrategy::no_shard;
            EXPECT_EQ(scalar.gradient(), owner ? 3 : 0) << name_of(strategy) << no_sync;
          });
    }
  }
}

// M micro-batches give the gradient norm of one batch with M times the rows, in both modes. The
// model has no dropout, because its masks depend on the micro-step.
TEST(Accumulation, OfMicroBatchesIsOneBatch) {
  const auto norm = [](std::int64_t micro_steps, bool no_sync) {
    return testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          gpt::GPTConfig config = testing::kTiny;
          config.dropout = 0;
          TinyTraining t(context, std::move(world), {.no_sync = no_sync},
                         std::make_unique<gpt::GPT>(config));
          const std::int64_t all = testing::kRows / 2, rows = all / micro_steps;
          t.sharded.zero_grad();
          for (std::int64_t m = 0; m < micro_steps; ++m) {
            const std::int64_t first = context.rank * all + m * rows;
            auto x = testing::tiny_tokens(0, 0, first, rows, 0);
            auto y = testing::tiny_tokens(0, 0, first, rows, 1);
            t.tape.begin(true);
            nn::cross_entropy(t.tape, t.sharded.forward(t.tape, x), y, t.total);
            t.sharded.backward(t.tape, nn::cross_entropy_backward(t.tape, 1e-2f),
                               m + 1 == micro_steps);
          }
          t.norm.compute(t.sharded.units(), 0);
          return std::vector<float>{*t.norm.norm().f32()};
        })[0][0];
  };
  const float one = norm(1, false);
  for (const std::int64_t micro_steps : {2, 3, 6}) {
    for (const bool no_sync : {false, true}) {
      EXPECT_NEAR(norm(micro_steps, no_sync) / one, 1, 1e-6) << micro_steps << no_sync;
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
