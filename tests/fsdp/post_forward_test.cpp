#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "support/closed_formula.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

// The records of all ranks of a run of four.
std::vector<std::vector<float>> records(Backend backend, const TinyOptions& options) {
  std::vector<std::vector<float>> all(4);
  testing::run_ranks(backend, 4, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    all[static_cast<std::size_t>(context.rank)] =
        TinyTraining(context, std::move(world), options).run();
  });
  return all;
}

// It changes no bit where backward gathers from, with any other options.
TEST(PostForward, ChangesNoBit) {
  const DType kShort = DType::bfloat16;
  for (const TinyOptions& options :
       {TinyOptions{}, TinyOptions{.prefetch = BackwardPrefetch::none},
        TinyOptions{.forward_prefetch = 1, .micro_steps = 2, .no_sync = true},
        TinyOptions{.micro_steps = 2, .recompute = true},
        TinyOptions{.precision = {.param_dtype = kShort, .reduce_dtype = kShort}},
        TinyOptions{.precision = {.param_dtype = DType::float8_e4m3}}}) {
    TinyOptions near = options;
    near.post_forward_size = 2;
    EXPECT_EQ(records(Backend::local, near), records(Backend::local, options));
  }
}

// Groups for backward lie inside a group of four ranks, which has three replicas.
TEST(PostForward, ChangesNoBitWhereReplicasSplitTheUpdate) {
  const auto run = [](int near) {
    return testing::run_ranks(
        Backend::local, 12, [=](Context& context, std::unique_ptr<comm::Communicator> world) {
          const TinyOptions options{.strategy = ShardingStrategy::hybrid_shard_optimizer,
                                    .micro_steps = 2,
                                    .shard_size = 4,
                                    .post_forward_size = near};
          return TinyTraining(context, std::move(world), options).run();
        });
  };
  EXPECT_EQ(run(2), run(0));
}

// The bytes of one rank in a step: all bytes that it sends, those inside its post-forward group,
// and the memory for whole parameters.
struct Bytes {
  std::int64_t all = 0, near = 0, held = 0;
  formula::Plan plan;
};

Bytes bytes_of_a_step(const TinyOptions& options) {
  Bytes bytes;
  testing::run_ranks(
      Backend::local, 4, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world), options);
        training.step(0);
        training.mesh.reset_traffic();
        training.step(1);
        if (context.rank != 0) return;
        bytes.all = training.mesh.traffic().bytes_sent;
        if (const auto* near = training.mesh.post_forward()) {
          bytes.near = near->traffic().bytes_sent;
        }
        bytes.held = context.ledger.count(MemoryClass::unsharded_parameters).reserved;
        bytes.plan = formula::plan(formula::layouts_of(training.sharded.units()),
                                   {.strategy = options.strategy,
                                    .precision = options.precision,
                                    .forward_prefetch = options.forward_prefetch,
                                    .pool = options.pool},
                                   {.shard_size = training.mesh.shard_size(),
                                    .replicas = training.mesh.replicas(),
                                    .post_forward_size = options.post_forward_size,
                                    .micro_steps = options.micro_steps});
      });
  return bytes;
}

// Four ranks form pairs. Backward's gathers stay in the pair and bring half of a unit; without
// pairs they bring three quarters from three ranks. Meanwhile a rank holds half of each unit.
TEST(PostForward, GathersInSmallGroupsAndHoldsASliceOfEveryUnit) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const std::int64_t micro_steps : {1, 3}) {
      const TinyOptions usual{.micro_steps = micro_steps, .precision = {.param_dtype = dtype}};
      TinyOptions near = usual;
      near.post_forward_size = 2;
      const Bytes far = bytes_of_a_step(usual), with = bytes_of_a_step(near);
      EXPECT_EQ(far.all, far.plan.step.bytes_sent);
      EXPECT_EQ(with.all, with.plan.step.bytes_sent);
      EXPECT_EQ(far.held, far.plan.of(MemoryClass::unsharded_parameters));
      EXPECT_EQ(with.held, with.plan.of(MemoryClass::unsharded_parameters));
      // 3/4 of each block's elements became 1/2, once in each micro-step.
      EXPECT_EQ(far.near, 0);
      EXPECT_EQ(2 * (far.all - with.all), with.near);
      // The slices are float32, because they are cut from the parameters with which the CPU
      // computes.
      const std::int64_t blocks = with.near / micro_steps * 2 / size_of(dtype);
      EXPECT_EQ(with.held - far.held, 4 * blocks / 2);
    }
  }
}

// Frozen parameters are in slices too: backward gathers as many bytes in the pair as without them.
TEST(PostForward, KeepsSlicesOfFrozenParameters) {
  const auto near = [](bool freezes) {
    return testing::run_ranks(
        Backend::local, 4, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          auto model = std::make_unique<gpt::GPT>(testing::kTiny);
          for (nn::Parameter* p : model->named_parameters())
            p->requires_grad = !freezes || p->name.find(".weight") == std::string::npos;
          TinyTraining training(context, std::move(world), {.post_forward_size = 2},
                                std::move(model));
          training.step(0);
          const auto bytes = training.mesh.post_forward()->traffic().bytes_sent;
          return std::vector<double>{static_cast<double>(bytes)};
        })[0][0];
  };
  const double frozen = near(true);
  EXPECT_GT(frozen, 0);
  EXPECT_NEAR(frozen / near(false), 1, 0.02);  // padding differs
}

TEST(PostForward, IsForStrategiesThatReshardAfterForward) {
  testing::run_ranks(
      Backend::local, 4, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        testing::expect_error<Error>(
            [&] {
              TinyTraining(context, std::move(world),
                           {.strategy = ShardingStrategy::shard_grad_op, .post_forward_size = 2});
            },
            "use full_shard or hybrid_shard");
      });
}

// Neighbouring ranks share a node.
TEST(PostForward, GroupsAreOfNeighbours) {
  testing::run_ranks(Backend::local, 4,
                     [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                       comm::Mesh mesh(std::move(world), /*shard_size=*/0, /*post_forward_size=*/2);
                       EXPECT_EQ(mesh.post_forward()->rank(), context.rank % 2);
                       EXPECT_EQ(mesh.post_forward()->size(), 2);
                     });
}

TEST(PostForward, GroupsDivideTheShardGroup) {
  for (const int size : {-2, 1, 3, 8}) {
    testing::run_ranks(Backend::local, 4, [&](Context& context, auto world) {
      testing::expect_error<UsageError>(
          [&] { TinyTraining(context, std::move(world), {.post_forward_size = size}); },
          "reshard_after_forward");
    });
  }
  for (const int size : {0, 4}) {
    testing::run_ranks(Backend::local, 4, [&](Context&, auto world) {
      EXPECT_EQ(comm::Mesh(std::move(world), 0, size).post_forward(), nullptr) << size;
    });
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
