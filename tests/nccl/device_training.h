#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"
#include "comm/local.h"
#include "comm/mesh.h"
#include "comm/nccl.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "gpt/block.h"
#include "gpt/gpt.h"
#include "nn/loss.h"

namespace nanofsdp::testing {

/// @file
/// @brief A small GPT that trains on GPUs under FSDP, and all results that must not depend on how
/// its ranks are connected.

/// The results of a rank's training.
struct Seen {
  std::string name{};                ///< names the options
  std::vector<double> numbers{};     ///< loss and gradient norm of each step; then the weights
  comm::Traffic traffic{};           ///< traffic of all groups, without control
  std::int64_t held = 0;             ///< bytes of the class communication at the end
  std::int64_t largest = 0;          ///< elements of the largest unit, with padding
  std::vector<std::string> order{};  ///< the order in which it issued gathers and reductions
};

/// The options of a strategy in float32, and in bfloat16. The bfloat16 ones have the other layout
/// if the strategy shards parameters.
inline std::vector<fsdp::Options> trainings(const fsdp::Sharding& sharding) {
  std::vector<fsdp::Options> all;
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const bool flat = dtype == DType::float32 || !sharding.parameters;
    all.push_back({.strategy = sharding.strategy,
                   .layout = flat ? fsdp::LayoutKind::flat : fsdp::LayoutKind::per_parameter,
                   .precision = {dtype, dtype},
                   .forward_prefetch = 1,
                   .reduction = comm::ReduceOp::sum,
                   .poison = true,
                   .wrap_policy = fsdp::is_a<gpt::Block>});
  }
  return all;
}

/// The options of every strategy that shards over all ranks, or of the hybrid ones.
inline std::vector<fsdp::Options> all_trainings(bool hybrid) {
  std::vector<fsdp::Options> all;
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    if (sharding.replicates == hybrid)
      std::ranges::copy(trainings(sharding), std::back_inserter(all));
  }
  return all;
}

/// Makes a step of two micro-steps and one of a single micro-step, with one set of options.
inline Seen trained(Context& context, comm::Mesh& mesh, const fsdp::Options& options) {
  constexpr gpt::GPTConfig kModel{.block_size = 5,
                                  .vocab_size = 7,
                                  .n_layer = 2,
                                  .n_head = 2,
                                  .n_embd = 8,
                                  .dropout = 0.1f,
                                  .bias = true};
  constexpr std::int64_t kRows = 2, kTokens = kRows * kModel.block_size;
  Seen seen{.name = name_of(options.strategy) +
                    (options.layout == fsdp::LayoutKind::flat ? "" : ", per parameter") +
                    (options.precision.reduce_dtype == DType::bfloat16 ? ", bfloat16" : "")};
  Stream& stream = *context.compute;
  gpt::GPT model(kModel);
  fsdp::ShardedModel sharded(context, model, mesh, options);
  nn::Tape tape(context);
  fsdp::GradNorm norm(context, mesh);
  fsdp::AdamW optimizer(context, sharded.units(), {});
  Generator generator(1);
  fsdp::deferred_init(context, sharded.units(), model.nanogpt_draws(), generator);
  const Buffer memory(context.ledger, MemoryClass::activations, 2 * kTokens * size_of(DType::int32),
                      context.device);
  const Buffer sum(context.ledger, MemoryClass::activations, size_of(DType::float64),
                   context.device);
  const Tensor tokens = memory.tensor({2 * kTokens}, DType::int32);
  const Tensor loss = sum.tensor({1}, DType::float64);
  const auto half = [&](int i) {
    return tokens.slice(i * kTokens, kTokens).view({kRows, kModel.block_size});
  };
  std::vector<double> loss_room;
  std::vector<float> room;
  const comm::Traffic before = mesh.traffic();
  context.tracer.start();
  for (std::int64_t step = 0; step < 2; ++step) {
    sharded.zero_grad();
    for (std::int64_t m = step; m < 2; ++m) {
      std::vector<std::int32_t> drawn(2 * kTokens);
      for (std::int32_t& token : drawn) {
        token = static_cast<std::int32_t>((generator.random() + context.rank) % kModel.vocab_size);
      }
      transfer(stream, Tensor(drawn.data(), tokens.shape(), DType::int32), tokens);
      tape.begin(/*training=*/true,
                 {.seed = 1, .iteration = step, .micro_step = m, .first_row = 2 * context.rank});
      nn::cross_entropy(tape, sharded.forward(tape, half(0)), half(1), loss);
      const float share = 1.0f / static_cast<float>(2 * kTokens * context.world_size);
      sharded.backward(tape, nn::cross_entropy_backward(tape, share), m == 1);
    }
    norm.compute(sharded.units(), /*max_norm=*/0.5);
    optimizer.step(/*lr=*/1e-2, norm.coefficient());
    seen.numbers.push_back(on_host<double>(stream, loss, loss_room)[0]);
    seen.numbers.push_back(on_host<float>(stream, norm.norm(), room)[0]);
  }
  seen.order = context.tracer.take_order();
  seen.traffic = mesh.traffic() - before;
  seen.traffic.control = 0;
  seen.held = context.ledger.count(MemoryClass::communication).reserved;
  for (const fsdp::ShardedParameters* row : sharded.rows()) {
    seen.largest = std::max(seen.largest, row->layout().whole_numel());
  }
  sharded.summon_full_parameters([&](const nn::Parameter& parameter) {
    const auto whole = on_host<float>(stream, parameter.data, room);
    seen.numbers.insert(seen.numbers.end(), whole.begin(), whole.end());
  });
  for (Stream* used : {&stream, context.gather.get(), context.reduce.get()}) used->synchronize();
  return seen;
}

/// A rank's trainings, one after another over the same groups.
inline std::vector<Seen> trained(Context& context, std::unique_ptr<comm::Communicator> world,
                                 int shard_size, const std::vector<fsdp::Options>& trainings) {
  comm::Mesh mesh(std::move(world), shard_size);
  std::vector<Seen> all;
  for (const fsdp::Options& options : trainings) all.push_back(trained(context, mesh, options));
  return all;
}

/// The results of each rank if ranks are threads that share the GPU.
inline std::vector<std::vector<Seen>> trained_by_threads(
    int ranks, int shard_size, const std::vector<fsdp::Options>& trainings) {
  std::vector<std::vector<Seen>> all(static_cast<std::size_t>(ranks));
  comm::launch_threads(ranks, 1,
                       [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                         all[static_cast<std::size_t>(context.rank)] =
                             trained(context, std::move(world), shard_size, trainings);
                       },
                       {.device = Device::cuda});
  return all;
}

/// Over NCCL the results have the same bits as between threads, the same traffic to the byte, the
/// same order, and the same memory except the scratch of the groups.
inline void expect_same(const std::vector<Seen>& got, const std::vector<Seen>& want, int ranks,
                        int shard_size) {
  ASSERT_EQ(got.size(), want.size());
  const int F = shard_size > 0 ? shard_size : ranks, R = ranks / F;
  const std::int64_t chunk = 4 * want[0].largest / F;  // the first training is in float32
  const std::int64_t scratch =
      comm::nccl_scratch_bytes(F, chunk) + comm::nccl_scratch_bytes(R, chunk / R);
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(got[i].name);
    EXPECT_EQ(got[i].name, want[i].name);
    ASSERT_EQ(got[i].numbers.size(), want[i].numbers.size());
    EXPECT_TRUE(std::ranges::all_of(got[i].numbers, [](double x) { return std::isfinite(x); }));
    const auto [at, other] = std::ranges::mismatch(got[i].numbers, want[i].numbers);
    EXPECT_EQ(at, got[i].numbers.end()) << "number " << at - got[i].numbers.begin();
    EXPECT_EQ(got[i].traffic, want[i].traffic);
    EXPECT_EQ(got[i].held - want[i].held, scratch);
    EXPECT_EQ(got[i].order, want[i].order);
  }
}

}  // namespace nanofsdp::testing
