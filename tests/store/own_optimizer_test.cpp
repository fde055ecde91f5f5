#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "fsdp/layout.h"
#include "nn/linear.h"
#include "ops/elementwise.h"
#include "store/checkpoint.h"
#include "support/plain_models.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "support/tensors.h"
#include "support/usage_error.h"

// Tests an optimizer of a user's own, on a model that is not a GPT.

namespace nanofsdp {
namespace {

using fsdp::Sharding;
using testing::Backend;
using testing::Owned;

constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kRows = 12;  // rows of a step, which the ranks share

// SGD with momentum, after torch.optim.SGD: b = mu * b + g, p = p - lr * b.
class Momentum final : public fsdp::ShardedOptimizer {
 public:
  Momentum(Context& context, std::span<fsdp::Unit> units)
      : ShardedOptimizer(context, units, {"momentum_buffer"}) {}

  std::vector<std::string> updated;  // names of the parameters that the last step updated

 private:
  void update(Stream& stream, const fsdp::Update& u) override {
    updated.push_back(u.parameter.name);
    ops::scale(stream, {.x = u.state[0], .factor = 0.9F});
    ops::accumulate(stream, {.in = u.gradients, .out = u.state[0]});
    const std::span<const float> b = u.state[0].span<float>();
    const std::span<float> p = u.values.span<float>();
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= static_cast<float>(u.lr) * b[i];
  }
};

class Layer final : public nn::Module {
 public:
  Layer() {
    add("a", a_);
    add("b", b_);
  }
  nn::Parameter& bias() { return *b_.own_parameters()[1].second; }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    return b_.forward(tape, a_.forward(tape, x));
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    return a_.backward(tape, b_.backward(tape, dy));
  }
  nn::Linear a_{{.in = kWidth, .out = kWidth + 1, .bias = true}};
  nn::Linear b_{{.in = kWidth + 1, .out = kWidth, .bias = true}};
};

using Two = testing::InTurn<Layer>;

// One rank of a training. The loss is half the sum of the squares of the outputs.
struct Training {
  Training(Context& context, std::unique_ptr<comm::Communicator> world,
           fsdp::ShardingStrategy strategy)
      : context(context),
        mesh(std::move(world), fsdp::sharding_of(strategy).replicates ? 1 : 0),
        sharded(fsdp::fully_shard(context, model, mesh,
                                  {.strategy = strategy,
                                   .reduction = comm::ReduceOp::sum,
                                   .poison = true,
                                   .wrap_policy = fsdp::is_a<Layer>})),
        optimizer(context, sharded.units()) {
    testing::store_random(sharded, 1, 0.2F);
  }

  void step(std::uint64_t seed) {
    const Owned<float> all = testing::random_tensor({kRows, kWidth}, seed);
    const std::int64_t n = kRows / context.world_size;
    const Tensor x = Tensor(const_cast<float*>(all.values.data()), all.shape)
                         .slice(context.rank * n * kWidth, n * kWidth)
                         .view({n, kWidth});
    optimizer.updated.clear();
    sharded.zero_grad();
    tape.begin(/*training=*/true);
    const Tensor y = sharded.forward(tape, x);
    sharded.backward(tape, y);
    optimizer.step(0.01);
  }

  Context& context;
  comm::Mesh mesh;
  Two model;
  nn::Tape tape{context};
  fsdp::ShardedModel sharded;
  Momentum optimizer;
};

std::vector<float> train(int world, fsdp::ShardingStrategy strategy, int steps) {
  return testing::run_ranks(world == 1 ? Backend::self : Backend::local, world,
                            [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                              Training t(context, std::move(group), strategy);
                              for (int s = 0; s < steps; ++s) t.step(100 + s);
                              return testing::whole_weights(t.sharded);
                            })[0];
}

// Whole copies from before an update are gathered again, although no call says that the optimizer
// has written.
TEST(OwnOptimizer, TrainsToTheSameBitsUnderEveryStrategy) {
  const std::vector<float> expected = train(3, fsdp::ShardingStrategy::no_shard, 3);
  EXPECT_NE(expected, train(3, fsdp::ShardingStrategy::no_shard, 2));
  for (const Sharding& sharding : fsdp::kShardings) {
    if (sharding.replicates) continue;
    EXPECT_EQ(train(3, sharding.strategy, 3), expected) << sharding.name;
  }
  const std::vector<float> alone = train(1, fsdp::ShardingStrategy::full_shard, 3);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], expected[i], 1e-6F);
}

TEST(OwnOptimizer, RemembersForWhatTrains) {
  Context context;
  comm::Mesh mesh(comm::make_self());
  Two model;
  model.first.bias().requires_grad = false;
  auto sharded = fsdp::fully_shard(context, model, mesh, {.wrap_policy = fsdp::is_a<Layer>});
  const Momentum optimizer(context, sharded.units());
  const std::int64_t frozen = kWidth;
  std::int64_t all = 0;
  for (const nn::Parameter* p : model.named_parameters()) all += p->shape.numel();
  std::int64_t remembered = 0;
  for (std::size_t u = 0; u < sharded.units().size(); ++u) {
    const fsdp::Layout& layout = sharded.units()[u].rows().front().layout();
    remembered += optimizer.state(u)[0].numel() - layout.padding_numel();
  }
  EXPECT_EQ(remembered, all - frozen);
}

// A checkpoint has the optimizer's state under its name, and training continues at any world size.
TEST(OwnOptimizer, GoesOnFromACheckpoint) {
  const testing::TemporaryDirectory directory;
  const std::string o = directory.file("o");
  const auto strategy = fsdp::ShardingStrategy::full_shard;
  const auto run = [&](int world, bool resume) {
    return testing::run_ranks(
        Backend::local, world, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          Training t(context, std::move(group), strategy);
          if (resume) {
            const auto words = store::load_checkpoint(o, t.sharded, t.optimizer);
            EXPECT_EQ(words.at("next"), "2");
          } else {
            t.step(100), t.step(101);
            store::save_checkpoint(o, t.sharded, t.optimizer, {{"next", "2"}});
          }
          t.step(102);
          return testing::whole_weights(t.sharded);
        })[0];
  };
  const std::vector<float> expected = run(2, false);
  EXPECT_EQ(run(2, true), expected);
  const std::vector<float> on_four = run(4, true);
  for (std::size_t i = 0; i < on_four.size(); ++i) EXPECT_NEAR(on_four[i], expected[i], 1e-6F);
}

TEST(OwnOptimizer, IsNotGivenWhatAnotherRemembers) {
  const testing::TemporaryDirectory directory;
  Context context;
  Training t(context, comm::make_self(), fsdp::ShardingStrategy::no_shard);
  t.step(1);
  store::save_checkpoint(directory.file("o"), t.sharded, t.optimizer);
  fsdp::AdamW adamw(context, t.sharded.units(), {});
  const std::string error =
      testing::usage_error([&] { store::load_checkpoint(directory.file("o"), t.sharded, adamw); });
  EXPECT_NE(error.find("exp_avg"), std::string::npos) << error;
}

// When gradients are multiplied by the result of clip(), the step of gradients of any size is that
// of their direction.
TEST(FullyShard, ClipsByTheNormOfAllRanks) {
  for (const int world : {1, 3}) {
    testing::run_ranks(world == 1 ? Backend::self : Backend::local, world,
                       [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                         Training t(context, std::move(group), fsdp::ShardingStrategy::full_shard);
                         t.step(5);  // the gradients of the last step are still there
                         const float norm = *t.sharded.clip(0).f32();
                         EXPECT_EQ(norm, 1);
                         const float full = *t.sharded.grad_norm().f32();
                         EXPECT_GT(full, 0);
                         EXPECT_FLOAT_EQ(*t.sharded.clip(full / 2).f32(), 0.5F);
                       });
  }
}

}  // namespace
}  // namespace nanofsdp
