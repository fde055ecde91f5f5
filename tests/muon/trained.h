#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "25_whole_matrices/muon.h"
#include "comm/mesh.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "gpt/gpt.h"
#include "nn/loss.h"
#include "store/checkpoint.h"
#include "support/ranks.h"
#include "support/tiny_training.h"
#include "support/whole_model.h"

namespace nanofsdp::muon_test {

/// @file
/// @brief A training with the sharded Muon of lesson 25, and one with a plain Muon in one process.

using fsdp::LayoutKind;
using fsdp::ShardingStrategy;
using lesson::Muon;
using testing::Backend;
using testing::kTiny;
using testing::Owned;
using testing::tiny_tokens;

inline constexpr double kRate = 1e-2;
inline constexpr std::int64_t kCount = 2;  // rows of a rank

struct Case {
  int ranks = 1;
  ShardingStrategy strategy = ShardingStrategy::full_shard;
  LayoutKind layout = LayoutKind::flat;
  std::int64_t steps = 4;
  bool only_first = false;  // only rank 0 has gradients that are not 0
  lesson::MuonOptions options{};
  std::int64_t first_step = 0;
  std::string load{}, save{};  // directories of checkpoints
};

inline gpt::GPTConfig config() {
  gpt::GPTConfig config = kTiny;
  config.dropout = 0;
  return config;
}

// Forward and backward of the rows that `rank` has in a step.
template <class Forward, class Backward>
void pass(nn::Tape& tape, std::int64_t step, int rank, float scale, const Forward& forward,
          const Backward& backward) {
  Owned<std::int32_t> x = tiny_tokens(step, 0, rank * kCount, kCount, 0);
  Owned<std::int32_t> y = tiny_tokens(step, 0, rank * kCount, kCount, 1);
  Owned<double> loss({1});
  tape.begin(true, {.seed = 1, .iteration = step});
  nn::cross_entropy(tape, forward(x.view()), y, loss);
  backward(nn::cross_entropy_backward(tape, scale));
}

// The factor of a rank's gradients.
inline float scale_of(const Case& c, int rank) {
  return c.only_first && rank > 0 ? 0 : 1.0F / float(kCount * kTiny.block_size);
}

struct Trained {
  std::map<std::string, std::vector<float>> weights;
  comm::Traffic traffic;  // rank 0's, of the last update
};

inline Trained sharded(const Case& c) {
  Trained result;
  testing::run_ranks(Backend::local, c.ranks, [&](Context& context, auto world) {
    gpt::GPT model(config());
    const bool replicates = sharding_of(c.strategy).replicates;
    comm::Mesh mesh(std::move(world), replicates && c.ranks % 2 == 0 ? c.ranks / 2 : 0);
    fsdp::ShardedModel shards(context, model, mesh,
                              {.strategy = c.strategy,
                               .layout = c.layout,
                               .reduction = comm::ReduceOp::sum,
                               .poison = true,
                               .wrap_policy = fsdp::is_a<gpt::Block>});
    Generator generator(1337);
    fsdp::deferred_init(context, shards.units(), model.nanogpt_draws(), generator);
    Muon optimizer(context, shards.units(), mesh, c.options);
    nn::Tape tape(context);
    if (!c.load.empty()) store::load_checkpoint(c.load, shards, optimizer);
    for (std::int64_t step = c.first_step; step < c.steps; ++step) {
      shards.zero_grad();
      pass(
          tape, step, context.rank, scale_of(c, context.rank),
          [&](Tensor x) { return shards.forward(tape, x); },
          [&](Tensor dy) { shards.backward(tape, dy); });
      mesh.reset_traffic();
      optimizer.step(kRate);
    }
    if (!c.save.empty()) store::save_checkpoint(c.save, shards, optimizer);
    if (context.rank == 0) result.traffic = mesh.traffic();
    shards.summon_full_parameters([&](const nn::Parameter& p) {
      const auto all = p.data.template span<float>();
      if (context.rank == 0) result.weights[p.name] = {all.begin(), all.end()};
    });
  });
  return result;
}

// Muon as its paper states it: whole matrices in one process, which adds up the gradients of the
// ranks in their order.
inline std::map<std::string, std::vector<float>> plain(const Case& c) {
  Context context;
  Stream& stream = *context.compute;
  gpt::GPT model(config());
  testing::WholeModel memory(model);
  memory.initialise(model.nanogpt_draws(), 1337);
  nn::Tape tape(context);
  std::map<std::string, std::pair<Owned<float>, Owned<float>>> states;
  for (nn::Parameter* p : memory.parameters) {
    states.emplace(p->name, std::pair(Owned<float>(p->shape), Owned<float>(p->shape)));
  }
  const Buffer room = context.buffer(MemoryClass::communication, 3 * 4 * 10 * 10);
  for (std::int64_t step = 0; step < c.steps; ++step) {
    std::map<std::string, std::vector<float>> sums;
    for (int rank = 0; rank < c.ranks; ++rank) {
      memory.zero_grad();
      pass(
          tape, step, rank, scale_of(c, rank), [&](Tensor x) { return model.forward(tape, x); },
          [&](Tensor dy) {
            model.backward(tape, dy);
            tape.end_backward();
          });
      for (nn::Parameter* p : memory.parameters) {
        const std::span<const float> grad = p->grad().span<float>();
        std::vector<float>& sum = sums[p->name];
        if (rank == 0) sum.assign(grad.begin(), grad.end());
        for (std::size_t e = 0; rank > 0 && e < sum.size(); ++e) sum[e] += grad[e];
      }
    }
    for (nn::Parameter* p : memory.parameters) {
      auto& [m, v] = states.at(p->name);
      Owned<float> grad(p->shape);
      grad.values = sums[p->name];
      const bool matrix = p->shape.rank() == 2;
      const bool table = p->name.find("wte") != p->name.npos || p->name.find("wpe") != p->name.npos;
      if (!matrix || table) {
        ops::adamw(stream, {.param = p->data,
                            .grad = grad,
                            .m = m,
                            .v = v,
                            .lr = kRate,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .weight_decay = matrix ? 0.1 : 0,
                            .step = step + 1});
        continue;
      }
      const float mu = 0.95F, keep = static_cast<float>(1 - 0.95),
                  back = static_cast<float>(1 / 0.95);
      for (std::size_t e = 0; e < grad.values.size(); ++e) {
        const float g = keep * grad.values[e];
        m.values[e] = mu * m.values[e] + g;
        grad.values[e] = back * g + m.values[e];
      }
      lesson::orthogonalise(stream, grad, room);
      const double longer = static_cast<double>(std::max(p->shape[0], p->shape[1]));
      const auto factor = static_cast<float>(-(kRate * 0.2 * std::sqrt(longer)));
      const std::span<float> weights = p->data.span<float>();
      for (std::size_t e = 0; e < weights.size(); ++e) {
        weights[e] *= static_cast<float>(1 - kRate * 0.1);
        weights[e] += factor * grad.values[e];
      }
    }
  }
  std::map<std::string, std::vector<float>> weights;
  for (nn::Parameter* p : memory.parameters) {
    const auto all = p->data.span<float>();
    weights[p->name] = {all.begin(), all.end()};
  }
  return weights;
}

}  // namespace nanofsdp::muon_test
