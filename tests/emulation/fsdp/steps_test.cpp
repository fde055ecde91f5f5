#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "gpt/block.h"
#include "gpt/gpt.h"
#include "nn/loss.h"
#include "support/layouts.h"
#include "support/ranks.h"

// A training of a user on emulated GPUs. No call reads a loss or a norm, so the host runs ahead of
// the GPU by whole steps.

namespace nanofsdp::testing {
namespace {

constexpr gpt::GPTConfig kModel{.block_size = 5,
                                .vocab_size = 7,
                                .n_layer = 2,
                                .n_head = 2,
                                .n_embd = 8,
                                .dropout = 0.1f,
                                .bias = true};
constexpr int kRanks = 2;
constexpr std::int64_t kRows = 2, kTokens = kRows * kModel.block_size;  // rows and tokens of a rank

/// The trainable weights after three steps, on each rank.
/// @param prepare changes the model before it is sharded
/// @param look reads the model when it has been sharded
/// @param waits whether the host waits for the GPU after each step
std::vector<std::vector<float>> trained(
    fsdp::Options options, bool waits, const std::function<void(gpt::GPT&)>& prepare = {},
    const std::function<void(Context&, fsdp::ShardedModel&)>& look = {}) {
  options.reduction = comm::ReduceOp::sum;
  options.wrap_policy = fsdp::is_a<gpt::Block>;
  return run_ranks(
      Backend::local, kRanks, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        Stream& stream = *context.compute;
        comm::Mesh mesh(std::move(world), /*shard_size=*/0);
        gpt::GPT model(kModel);
        if (prepare) prepare(model);
        fsdp::ShardedModel sharded(context, model, mesh, options);
        if (look) look(context, sharded);
        nn::Tape tape(context);
        fsdp::GradNorm norm(context, mesh);
        fsdp::AdamW optimizer(context, sharded.units(), {});
        Generator generator(1);
        fsdp::deferred_init(context, sharded.units(), model.nanogpt_draws(), generator);
        Buffer memory(context.ledger, MemoryClass::activations, 2 * kTokens * size_of(DType::int32),
                      context.device);
        Buffer loss(context.ledger, MemoryClass::communication, size_of(DType::float64),
                    context.device);
        const Tensor tokens = memory.tensor({2 * kTokens}, DType::int32);
        const auto half = [&](int i) {
          return tokens.slice(i * kTokens, kTokens).view({kRows, kModel.block_size});
        };
        for (std::int64_t step = 0; step < 3; ++step) {
          std::vector<std::int32_t> drawn(2 * kTokens);
          for (std::int32_t& token : drawn) {
            token =
                static_cast<std::int32_t>((generator.random() + context.rank) % kModel.vocab_size);
          }
          transfer(stream, Tensor(drawn.data(), tokens.shape(), DType::int32), tokens);
          sharded.zero_grad();
          tape.begin(/*training=*/true,
                     {.seed = 1, .iteration = step, .first_row = kRows * context.rank});
          nn::cross_entropy(tape, sharded.forward(tape, half(0)), half(1),
                            loss.tensor({1}, DType::float64));
          sharded.backward(tape, nn::cross_entropy_backward(tape, 1.0f / (kRanks * kTokens)));
          norm.compute(sharded.units(), /*max_norm=*/0.5);
          optimizer.step(/*lr=*/1e-2, norm.coefficient());
          if (waits) stream.synchronize();
        }
        std::vector<float> weights, room;
        sharded.summon_full_parameters([&](const nn::Parameter& parameter) {
          if (!parameter.requires_grad) return;
          const auto whole = on_host<float>(stream, parameter.data, room);
          weights.insert(weights.end(), whole.begin(), whole.end());
        });
        return weights;
      });
}

TEST(EmulatedSteps, HaveTheSameBitsWhetherSomebodyWaitsOrNot) {
  for (const auto layout : testing::kLayouts) {
    const auto waited = trained({.layout = layout}, true);
    EXPECT_GT(waited[0].size(), 0u);
    for (int i = 0; i < 2; ++i) {  // with other random numbers the second time
      EXPECT_TRUE(trained({.layout = layout}, false) == waited) << i;
    }
  }
}

// A GPU computes with frozen bfloat16 matrices as they are stored. The steps are those of float32
// matrices, which are rounded when they are sent. If each rank has all of them, they are not
// copied.
TEST(EmulatedSteps, ComputeWithWhatIsStoredInBfloat16) {
  const auto freeze = [](DType matrices) {
    return [=](gpt::GPT& model) {
      for (nn::Parameter* p : model.named_parameters()) {
        p->requires_grad = p->name.find("ln_") != std::string::npos;
        if (!p->requires_grad && p->shape.rank() == 2) p->dtype = matrices;
      }
    };
  };
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    if (sharding.replicates) continue;
    const auto look = [&](Context& context, fsdp::ShardedModel& sharded) {
      if (sharding.parameters) return;
      std::int64_t copied = 0;
      for (const fsdp::ShardedParameters* row : sharded.rows()) {
        if (row->dtype() == DType::float32) copied += row->layout().whole_numel();
      }
      EXPECT_EQ(context.ledger.count(MemoryClass::unsharded_parameters).reserved, 2 * copied);
    };
    const fsdp::Options options{
        .strategy = sharding.strategy, .precision = {DType::bfloat16}, .poison = true};
    const auto expected = trained(options, false, freeze(DType::float32));
    EXPECT_GT(expected[0].size(), 0u);
    EXPECT_TRUE(trained(options, false, freeze(DType::bfloat16), look) == expected)
        << sharding.name;
  }
}

// Activations are bfloat16 then, and the terms that are added to gradients are float32.
TEST(EmulatedSteps, HaveTheSameBitsUnderEveryStrategyInBfloat16) {
  std::vector<std::vector<float>> first;
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    if (sharding.replicates) continue;
    const auto weights = trained(
        {.strategy = sharding.strategy, .precision = {DType::bfloat16}, .poison = true}, false);
    if (first.empty()) first = weights;
    EXPECT_GT(weights[0].size(), 0u);
    EXPECT_TRUE(weights == first) << sharding.name;
  }
}

}  // namespace
}  // namespace nanofsdp::testing
