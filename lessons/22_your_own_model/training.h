#pragma once

#include <nanofsdp/comm/local.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "22_your_own_model/lora.h"

/// @file
/// @brief The training of a Llama for lesson 22. The ranks are threads.

namespace lesson {

using namespace nanofsdp;

/// Rows of T tokens, and for each token the one that comes next.
struct Rows {
  Rows(std::int64_t count, std::int64_t T) : T(T), x(count * T), y(count * T) {}
  Tensor inputs() { return {x.data(), {std::ssize(x) / T, T}, DType::int32}; }
  Tensor targets() { return {y.data(), {std::ssize(y) / T, T}, DType::int32}; }

  std::int64_t T;
  std::vector<std::int32_t> x, y;
};

/// The values of a model's parameters, by their names.
using Values = std::map<std::string, std::vector<float>>;

/// Gives the model's parameters their memory in `values`. Missing values are drawn at random.
inline void give(nn::Module& model, Values& values, std::uint64_t seed = 1337) {
  Generator generator(seed);
  for (nn::Parameter* p : model.named_parameters()) {
    const auto [at, missing] = values.try_emplace(p->name, p->shape.numel());
    if (missing) nn::draw(generator, p->init, at->second);
    p->data = Tensor(at->second.data(), p->shape);
  }
}

//! [training]
/// The training of one rank.
struct Training {
  /// @param model with values; the rank keeps its shard of them
  Training(Context& context, std::unique_ptr<comm::Communicator> world, nn::Module& model,
           fsdp::Options options = {})
      : mesh(std::move(world)),
        sharded(context, model, mesh,
                (options.wrap_policy = fsdp::is_a<llama::Block>,
                 options.reduction = comm::ReduceOp::sum, options)),
        tape(context),
        optimizer(context, sharded.units(), {}) {}

  /// @param rows of this rank  @param tokens of all ranks in this step
  /// @return the sum of the losses of this rank's tokens
  double step(Rows rows, std::int64_t tokens, double lr) {
    double loss = 0;
    sharded.zero_grad();
    tape.begin(/*training=*/true);
    const Tensor logits = sharded.forward(tape, rows.inputs());
    nn::cross_entropy(tape, logits, rows.targets(), Tensor(&loss, {1}, DType::float64));
    sharded.backward(tape, nn::cross_entropy_backward(tape, 1.0f / static_cast<float>(tokens)));
    optimizer.step(lr, sharded.clip(/*max_norm=*/1));
    return loss;
  }

  comm::Mesh mesh;
  fsdp::ShardedModel sharded;
  nn::Tape tape;
  fsdp::AdamW optimizer;
};
//! [training]

/// A model, its text and its recipe.
struct Task {
  llama::Config config;
  std::int64_t rows, T;  ///< rows of a step, over all ranks; tokens of a row
  /// Fills rows [first, first + count) of a step.
  std::function<void(int step, std::int64_t first, Rows& rows)> text;
  int steps;
  bool lora = false;  ///< with adapters of width 4 and alpha 8; all other parameters are frozen
  double lr = 1e-3;
};

/// The results of a run.
struct Run {
  std::vector<double> losses;                 ///< the mean over all tokens, of each step
  Values values;                              ///< afterwards
  comm::Traffic traffic;                      ///< traffic of rank 0 in the last step
  std::map<MemoryClass, std::int64_t> bytes;  ///< rank 0's, reserved
};

inline std::unique_ptr<llama::Llama> make_model(const Task& task) {
  if (!task.lora) return std::make_unique<llama::Llama>(task.config);
  auto model = std::make_unique<llama::Llama>(task.config, llama::with_adapters(4, 8));
  llama::freeze_base(*model);
  return model;
}

/// A run on W ranks.
/// @param start values of some parameters, or of all
inline Run train(int W, const Task& task, const Values& start = {},
                 const fsdp::Options& options = {}) {
  Run run;
  std::vector<std::vector<double>> losses(static_cast<std::size_t>(W));
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    const auto model = make_model(task);
    Values values = start;
    give(*model, values);
    Training training(context, std::move(world), *model, options);
    const std::int64_t first = task.rows * context.rank / W;
    for (int step = 0; step < task.steps; ++step) {
      training.mesh.reset_traffic();
      Rows rows(task.rows * (context.rank + 1) / W - first, task.T);
      task.text(step, first, rows);
      losses[context.rank].push_back(training.step(std::move(rows), task.rows * task.T, task.lr));
    }
    if (context.rank == 0) run.traffic = training.mesh.traffic();
    for (const MemoryClass kind : kMemoryClasses) {
      if (context.rank == 0) run.bytes[kind] = context.ledger.count(kind).reserved;
    }
    training.sharded.summon_full_parameters([&](const nn::Parameter& p) {
      const auto all = p.data.span<float>();
      if (context.rank == 0) run.values[p.name] = {all.begin(), all.end()};
    });
  });
  for (int step = 0; step < task.steps; ++step) {
    double sum = 0;
    for (const auto& of_rank : losses) sum += of_rank[static_cast<std::size_t>(step)];
    run.losses.push_back(sum / static_cast<double>(task.rows * task.T));
  }
  return run;
}

}  // namespace lesson
