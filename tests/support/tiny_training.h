#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "gpt/gpt.h"
#include "nn/loss.h"
#include "support/plain_models.h"
#include "support/ranks.h"
#include "support/tensors.h"

namespace nanofsdp::testing {

/// @file
/// @brief A training of a GPT that is small enough to run a hundred times in a test. It has three
/// blocks, biases, sizes with few common divisors, and rows that differ on every rank.

inline constexpr gpt::GPTConfig kTiny{.block_size = 7,
                                      .vocab_size = 13,
                                      .n_layer = 3,
                                      .n_head = 2,
                                      .n_embd = 10,
                                      .dropout = 0.1f,
                                      .bias = true};
inline constexpr std::int64_t kRows = 12;  // rows of a micro-batch, which the ranks share
inline constexpr std::int64_t kTinySteps = 3;
inline constexpr double kTinyLearningRate = 1e-2;
inline constexpr double kTinyClip = 0.5;  // it clips in every step

/// Tokens (shift 0) or targets (shift 1) of rows [first, first + count) of one micro-batch.
inline Owned<std::int32_t> tiny_tokens(std::int64_t step, std::int64_t micro_step,
                                       std::int64_t first, std::int64_t count, int shift) {
  Owned<std::int32_t> tokens({count, kTiny.block_size});
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t t = 0; t < kTiny.block_size; ++t) {
      const std::int64_t global = first + row;
      const std::int64_t at = 7 * step + 5 * micro_step + 3 * global + t + shift;
      tokens.values[row * kTiny.block_size + t] =
          static_cast<std::int32_t>((at * at + global) % kTiny.vocab_size);
    }
  }
  return tokens;
}

struct TinyOptions {
  fsdp::ShardingStrategy strategy = fsdp::ShardingStrategy::full_shard;
  fsdp::LayoutKind layout = fsdp::LayoutKind::flat;
  fsdp::BackwardPrefetch prefetch = fsdp::BackwardPrefetch::pre;
  int forward_prefetch = 0;
  bool poison = true;
  std::int64_t micro_steps = 1;
  bool no_sync = false;
  bool pool = true;
  bool recompute = false;
  fsdp::MixedPrecision precision{};
  int shard_size = 0;
  int post_forward_size = 0;
  std::int64_t steps = kTinySteps;
  double clip = kTinyClip;  // 0: no clipping
  fsdp::WrapPolicy wrap_policy = fsdp::is_a<gpt::Block>;
};

/// One rank of a sharded training.
class TinyTraining {
 public:
  TinyTraining(Context& context, std::unique_ptr<comm::Communicator> world,
               const TinyOptions& options)
      : TinyTraining(context, std::move(world), options, std::make_unique<gpt::GPT>(kTiny)) {}

  /// Trains a model that the caller has prepared.
  TinyTraining(Context& context, std::unique_ptr<comm::Communicator> world,
               const TinyOptions& options, std::unique_ptr<gpt::GPT> prepared)
      : options(options),
        context(context),
        mesh(std::move(world), options.shard_size, options.post_forward_size),
        own_model(std::move(prepared)),
        model(*own_model),
        sharded(context, model, mesh,
                {.strategy = options.strategy,
                 .layout = options.layout,
                 .precision = options.precision,
                 .forward_prefetch = options.forward_prefetch,
                 .backward_prefetch = options.prefetch,
                 .no_sync = options.no_sync,
                 .reduction = comm::ReduceOp::sum,
                 .poison = options.poison,
                 .pool = options.pool,
                 .wrap_policy = options.wrap_policy}),
        tape(context),
        norm(context, mesh),
        optimizer(context, sharded.units(), {}) {
    for (const auto& block : model.blocks()) block->recompute = options.recompute;
    Generator generator(1337);
    fsdp::deferred_init(context, sharded.units(), model.nanogpt_draws(), generator);
  }

  /// Forward and backward of this rank's rows of one micro-batch.
  void micro_step(std::int64_t step, std::int64_t m) {
    const std::int64_t count = kRows / context.world_size, first = context.rank * count;
    Owned<std::int32_t> x = tiny_tokens(step, m, first, count, 0);
    Owned<std::int32_t> y = tiny_tokens(step, m, first, count, 1);
    tape.begin(true, {.seed = 1, .iteration = step, .micro_step = m, .first_row = first});
    nn::cross_entropy(tape, sharded.forward(tape, x), y, total);
    const auto tokens = static_cast<float>(kRows * kTiny.block_size * options.micro_steps);
    sharded.backward(tape, nn::cross_entropy_backward(tape, 1 / tokens),
                     m + 1 == options.micro_steps);
  }

  void step(std::int64_t step) {
    total.values[0] = 0;
    sharded.zero_grad();
    for (std::int64_t m = 0; m < options.micro_steps; ++m) micro_step(step, m);
    norm.compute(sharded.units(), options.clip);
    optimizer.step(kTinyLearningRate, norm.coefficient());
  }

  /// Every weight of the model, in the order of the units.
  std::vector<float> weights() { return whole_weights(sharded); }

  /// Trains. Returns the loss of this rank's rows and the global gradient norm of each step, and
  /// then the weights.
  std::vector<float> run() {
    std::vector<float> record;
    for (std::int64_t s = 0; s < options.steps; ++s) {
      step(s);
      record.push_back(static_cast<float>(total.values[0]));
      record.push_back(*norm.norm().f32());
    }
    const std::vector<float> final = weights();
    record.insert(record.end(), final.begin(), final.end());
    return record;
  }

  TinyOptions options;
  Context& context;
  comm::Mesh mesh;
  std::unique_ptr<gpt::GPT> own_model;
  gpt::GPT& model;
  fsdp::ShardedModel sharded;
  nn::Tape tape;
  fsdp::GradNorm norm;
  fsdp::AdamW optimizer;
  Owned<double> total{{1}};
};

/// Trains on `world` ranks. Returns each rank's TinyTraining::run().
inline std::vector<std::vector<float>> train(Backend backend, int world,
                                             const TinyOptions& options) {
  return run_ranks(backend, world,
                   [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                     return TinyTraining(context, std::move(group), options).run();
                   });
}

}  // namespace nanofsdp::testing
