#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "26_two_dimensions/model.h"
#include "frame/learner.h"

/// @file
/// @brief Trains the parallel GPT on a grid of ranks, which are threads.

namespace lesson {

/// The ranks: shards x tensor.
struct Grid {
  int shards, tensor;
};

/// The results of a run, as in lesson 11, and what crosses the links of the tensor group.
struct GridRun : Trained {
  using Trained::Trained;
  comm::Traffic tensor;             // of rank 0, in the last step
  bool tensor_losses_agree = true;  // whether all ranks of each tensor group have the same losses
};

inline GridRun train_on(const Grid& grid, int steps, fsdp::Options options,
                        const train::TrainerOptions& o, const data::Dataset& text) {
  options.wrap_policy = fsdp::is_a<ParallelBlock>, options.alignment = 1;
  GridRun run(steps);
  const int ranks = grid.shards * grid.tensor;
  std::vector<std::vector<double>> losses(ranks, std::vector<double>(steps));
  comm::launch_threads(ranks, 1, [&](Context& context, auto world) {
    Generator generator(o.seed);
    //! [train]
    comm::Mesh mesh(std::move(world), /*shard_size=*/0, /*post_forward_size=*/0, grid.tensor);
    ParallelGPT model(mesh.tensor(), nanogpt(65));
    const auto memory = give_part(model, nanogpt(65), generator);
    fsdp::ShardedModel sharded(context, model, mesh, options);
    //! [train]
    fsdp::AdamW optimizer(context, sharded.units(),
                          {.beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay});
    nn::Tape tape(context);
    // The ranks of a tensor group have the same rows.
    const data::BatchRows rows{mesh.rank() * o.batch_size / mesh.size(),
                               o.batch_size / mesh.size()};
    const Shape shape{rows.count, o.block_size};
    std::vector<std::int32_t> x(shape.numel()), y(x.size());
    for (int step = 0; step < steps; ++step) {
      mesh.reset_traffic();
      text.draw(data::Split::train, generator, o.batch_size, rows, {x, y});
      sharded.zero_grad();
      tape.begin(/*training=*/true);
      const Tensor logits = sharded.forward(tape, Tensor(x.data(), shape, DType::int32));
      nn::cross_entropy(tape, logits, Tensor(y.data(), shape, DType::int32),
                        Tensor(&losses[context.rank][step], {1}, DType::float64));
      const auto own = static_cast<float>(shape.numel());
      sharded.backward(tape, nn::cross_entropy_backward(tape, 1 / own));
      optimizer.step(o.learning_rate, sharded.clip(o.grad_clip));
      if (context.rank > 0) continue;
      run.norms[step] = *sharded.grad_norm().f32();
      run.tensor = mesh.tensor().traffic();
      run.traffic = mesh.traffic() - run.tensor;
    }
    if (context.rank == 0) run.weigh(context);
    sharded.summon_full_parameters([&](const nn::Parameter& p) {
      if (context.rank == 0) run.add_weights(p.data.template span<float>());
    });
  });
  // One rank of each tensor group counts its loss.
  std::vector<std::vector<double>> counted;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank % grid.tensor == 0) counted.push_back(losses[rank]);
    run.tensor_losses_agree = run.tensor_losses_agree && losses[rank] == counted.back();
  }
  run.mean(counted, o.batch_size * o.block_size);
  return run;
}

}  // namespace lesson
