#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>

#include "gpt/gpt.h"
#include "plan/plan.h"
#include "plan/rehearsal.h"
#include "plan/simulated.h"

// Tests the cost of a whole step against the usual formula: 6 operations for each parameter and
// token.

namespace nanofsdp::plan {
namespace {

constexpr std::int64_t kL = 3, kC = 8, kV = 11, kT = 5, kB = 2;

// The operations for all tokens of a step.
double products(bool recompute, bool bias, std::vector<std::int64_t> rows) {
  gpt::GPT model(
      {.block_size = kT, .vocab_size = kV, .n_layer = kL, .n_head = 2, .n_embd = kC, .bias = bias});
  for (const auto& block : model.blocks()) block->recompute = recompute;
  const std::int64_t all = std::reduce(rows.begin(), rows.end()) * kT;
  return plan(model, {.options = {.wrap_policy = fsdp::is_a<gpt::Block>},
                      .work = {.rows = std::move(rows), .tokens = kT}})
             .products *
         all;
}

constexpr double kBlocks = kL * 12 * kC * kC;             // parameters of matrix products
constexpr double kPairs = kL * kB * kT * (kT + 1) / 2.0;  // pairs that attention sees

TEST(StepCost, IsSixOperationsAParameterAndTokenAndAttention) {
  const double step = 6 * (kBlocks + kC * kV) * kB * kT + 7 * 2 * kC * kPairs;
  for (const bool bias : {false, true}) {
    EXPECT_EQ(products(false, bias, {kB}), step);
    EXPECT_EQ(products(false, bias, {kB, kB}), 2 * step);
  }
}

TEST(StepCost, OfRecomputeIsOneForwardOfTheBlocksMore) {
  const double forward = 2 * kBlocks * kB * kT + 2 * 2 * kC * kPairs;
  EXPECT_EQ(products(true, true, {kB}) - products(false, true, {kB}), forward);
}

// The bytes in the costs of collectives are those that are counted as sent, on every rank of every
// group.
TEST(StepCost, OfCollectivesIsWhatIsCounted) {
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    for (const int W : {1, 2, 6}) {
      SimulatedRank context(W - 1, W, 1, Device::simulated_cpu);
      const int shard_size = sharding.replicates && W == 6 ? 3 : 0;
      comm::Mesh mesh = make_simulated_mesh(context, shard_size);
      gpt::GPT model(
          {.block_size = kT, .vocab_size = kV, .n_layer = kL, .n_head = 2, .n_embd = kC});
      Rehearsal training(context, mesh, model,
                         {.strategy = sharding.strategy, .wrap_policy = fsdp::is_a<gpt::Block>},
                         {.rows = {kB, kB}, .tokens = kT});
      training.step();
      double sent = 0, across = 0;
      for (const Issued& issued : context.issued) {
        const Payload& payload = issued.cost.payload;
        sent += payload.bytes;
        if (payload.stride > 1) across += payload.bytes;
      }
      const comm::Traffic traffic = mesh.traffic();
      const std::int64_t norms = traffic.control * 8 * (W - 1);  // one number for each peer
      EXPECT_EQ(sent, static_cast<double>(traffic.bytes_sent + norms)) << sharding.name << W;
      EXPECT_EQ(sent > 0, W > 1) << sharding.name;
      EXPECT_EQ(across > 0, shard_size == 3) << sharding.name;
    }
  }
}

// A module of a user's own, which states its cost or does not.
struct Doubled final : nn::Module {
  explicit Doubled(bool states_cost) : states_cost(states_cost) {}
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    const auto work = [=] {
      for (std::int64_t i = 0; i < y.numel(); ++i) y.f32()[i] = 2 * x.f32()[i];
    };
    if (states_cost) {
      tape.stream().enqueue(moves({x}, {y}, /*flops=*/1), work);
    } else {
      tape.stream().enqueue(work);
    }
    return y;
  }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }
  bool states_cost;
};

TEST(UserModule, CostsWhatItStatesOrTheBytesThatItAllocates) {
  for (const bool stated : {false, true}) {
    SimulatedRank context(0, 1, 1, Device::simulated_cpu);
    nn::Tape tape(context);
    tape.begin(/*training=*/false);
    const Tensor x = tape.allocate({4, 8});  // 128 bytes
    context.compute->enqueue({}, [] {});
    Doubled(stated).forward(tape, x);
    const Cost& cost = context.issued.back().cost;
    EXPECT_EQ(cost.read, 128);
    EXPECT_EQ(cost.written, 128);
    EXPECT_EQ(cost.flops, stated ? 32 : 0);
  }
}

}  // namespace
}  // namespace nanofsdp::plan
