#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "frame/nanogpt.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "nn/loss.h"

namespace lesson {

/// @file
/// @brief One rank of a training run with the library, for lessons that look inside such a run.

/// Rows of tokens in an invented language, with the next token of each. Row i is always the same,
/// so runs may share the rows in any way.
struct Rows {
  Rows(const nanofsdp::gpt::GPTConfig& config, std::int64_t first, std::int64_t count)
      : T(config.block_size), inputs(count * T), targets(count * T) {
    for (std::int64_t i = 0; i < count * T; ++i) {
      const std::int64_t row = first + i / T, at = 3 * row + i % T;
      inputs[i] = static_cast<std::int32_t>((at * at + row) % config.vocab_size);
      targets[i] = static_cast<std::int32_t>(((at + 1) * (at + 1) + row) % config.vocab_size);
    }
  }
  nanofsdp::Tensor tensor(std::vector<std::int32_t>& of) const {
    const auto n = static_cast<std::int64_t>(of.size());
    return {of.data(), {n / T, T}, nanofsdp::DType::int32};
  }

  std::int64_t T;
  std::vector<std::int32_t> inputs, targets;  // a target of -1 does not count
};

/// Runs forward and backward of rows. @return the sum of their tokens' losses
/// @param forward of a model  @param backward from the gradient of the logits
template <class Forward, class Backward>
double pass(nanofsdp::nn::Tape& tape, Rows rows, float scale, const Forward& forward,
            const Backward& backward) {
  double sum = 0;
  tape.begin(/*training=*/true, {.seed = 1});
  const nanofsdp::Tensor logits = forward(rows.tensor(rows.inputs));
  nanofsdp::nn::cross_entropy(tape, logits, rows.tensor(rows.targets),
                              {&sum, {1}, nanofsdp::DType::float64});
  backward(nanofsdp::nn::cross_entropy_backward(tape, scale));
  return sum;
}

/// @param options the wrap policy is set here: each block is a unit
struct ShardedRank {
  ShardedRank(nanofsdp::Context& context, std::unique_ptr<nanofsdp::comm::Communicator> world,
              const nanofsdp::gpt::GPTConfig& config, nanofsdp::fsdp::Options options)
      : mesh(std::move(world)),
        model(config),
        sharded(context, model, mesh, (options.wrap_policy = is_block, options)),
        tape(context),
        norm(context, mesh),
        optimizer(context, sharded.units(), {}) {
    nanofsdp::Generator generator(1337);
    nanofsdp::fsdp::deferred_init(context, sharded.units(), model.nanogpt_draws(), generator);
  }

  /// @param scale factor of the gradient: 1 / (tokens of the step, or of this rank)
  double forward_backward(const Rows& rows, float scale, bool last_micro_step = true) {
    return pass(
        tape, rows, scale, [&](nanofsdp::Tensor x) { return sharded.forward(tape, x); },
        [&](nanofsdp::Tensor d) { sharded.backward(tape, d, last_micro_step); });
  }

  void update(double max_norm = 1) {
    norm.compute(sharded.units(), max_norm);
    optimizer.step(1e-3, norm.coefficient());
  }

  std::vector<float> weights() {
    std::vector<float> all;
    sharded.summon_full_parameters([&](const nanofsdp::nn::Parameter& parameter) {
      const std::span<float> values = parameter.data.span<float>();
      all.insert(all.end(), values.begin(), values.end());
    });
    return all;
  }

  nanofsdp::comm::Mesh mesh;
  nanofsdp::gpt::GPT model;
  nanofsdp::fsdp::ShardedModel sharded;
  nanofsdp::nn::Tape tape;
  nanofsdp::fsdp::GradNorm norm;
  nanofsdp::fsdp::AdamW optimizer;
};

}  // namespace lesson
