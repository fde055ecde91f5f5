#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "25_whole_matrices/muon.h"
#include "frame/learner.h"

/// @file
/// @brief Trains lesson 06's GPT with AdamW or Muon, on ranks that are threads.

namespace lesson {

enum class Kind { adamw, muon, slices };

/// A run, and what its optimizer sends.
struct MuonRun : Trained {
  using Trained::Trained;
  comm::Traffic update;  // rank 0's traffic in the last step of the optimizer
};

/// The library's training, but with another optimizer.
inline MuonRun train_with(Kind kind, int steps, fsdp::Options options,
                          const train::TrainerOptions& o, const data::Dataset& text) {
  options.wrap_policy = is_block, options.alignment = 1;
  const fsdp::AdamWOptions adamw{
      .beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay};
  MuonRun run(steps);
  std::vector<std::vector<double>> losses(kRanks, std::vector<double>(steps));
  comm::launch_threads(kRanks, 1, [&](Context& context, auto world) {
    comm::Mesh mesh(std::move(world));
    Learner learner(context, o, text, /*micro_steps=*/1);
    fsdp::ShardedModel sharded(context, learner.model, mesh, options);
    std::unique_ptr<fsdp::ShardedOptimizer> optimizer;
    if (kind == Kind::adamw) {
      optimizer = std::make_unique<fsdp::AdamW>(context, sharded.units(), adamw);
    } else {
      //! [groups]
      const auto group = [](const nn::Parameter& p) {
        Group of_p = gpt_group(p);
        if (of_p.muon) of_p.lr_factor = 3;
        return of_p;
      };
      const MuonOptions muon{.adamw = adamw, .group = group, .slices = kind == Kind::slices};
      //! [groups]
      optimizer = std::make_unique<Muon>(context, sharded.units(), mesh, muon);
    }
    for (int step = 0; step < steps; ++step) {
      mesh.reset_traffic();
      sharded.zero_grad();
      losses[context.rank][step] = learner.forward_backward(sharded);
      const Tensor clip = sharded.clip(o.grad_clip);
      if (context.rank == 0) run.traffic = mesh.traffic();
      mesh.reset_traffic();
      optimizer->step(o.learning_rate, clip);
      if (context.rank == 0) run.update = mesh.traffic();
    }
    sharded.summon_full_parameters([&](const nn::Parameter& p) {
      if (context.rank == 0) run.add_weights(p.data.template span<float>());
    });
  });
  run.mean(losses, o.batch_size * o.block_size);
  return run;
}

}  // namespace lesson
