#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/buffer.h"
#include "comm/communicator.h"
#include "frame/learner.h"
#include "fsdp/sharded_parameters.h"
#include "ops/adamw.h"
#include "ops/elementwise.h"
#include "train/options.h"

/// @file
/// @brief AdamW and the gradient norm on the shards of one rank. This is lesson 09's idea; lessons
/// 10 and 11 use it too.

namespace lesson {

using namespace nanofsdp;

//! [owned]
// What one rank keeps of one unit.
struct Row {
  Row(Context& context, const std::vector<nn::Parameter*>& parameters,
      fsdp::ShardingStrategy strategy)
      : flat(context, parameters, context.rank, context.world_size, fsdp::sharding_of(strategy),
             /*alignment=*/1),
        mine{context.rank * flat.layout().shard_numel(),
             (context.rank + 1) * flat.layout().shard_numel()},
        m(context.ledger, MemoryClass::optimizer, mine.size() * sizeof(float)),
        v(context.ledger, MemoryClass::optimizer, mine.size() * sizeof(float)) {}

  fsdp::ShardedParameters flat;  // the rows of parameters and of gradients
  fsdp::Range mine;              // this rank's shard, as a range of the row
  Buffer m, v;                   // the two moments, of the shard only
};
//! [owned]

/// The norm of the whole model's gradient.
//! [norm]
inline double norm(Stream& stream, comm::Communicator& world, const std::deque<Row>& rows) {
  double squares = 0;  // the sum over this rank's shards
  for (const Row& row : rows) {
    for (const double g : row.flat.gradient_shard().span<float>()) squares += g * g;
  }
  std::vector<double> all(world.size());
  world.all_gather(stream, {&squares, {1}, DType::float64},
                   {all.data(), {world.size()}, DType::float64}, {.control = true});
  double sum = 0;
  for (const double of_rank : all) sum += of_rank;
  return std::sqrt(sum);
}
//! [norm]

/// One step of AdamW.
/// @param clip the factor for the gradient
//! [update]
inline void update(Stream& stream, Row& row, const train::TrainerOptions& o, int step,
                   double clip) {
  auto scale = static_cast<float>(clip);
  for (std::size_t i = 0; i < row.flat.parameters().size(); ++i) {
    const fsdp::Range at = row.flat.layout().piece(i, row.flat.rank()).in_shard;
    if (at.empty()) continue;  // another rank updates this parameter
    ops::adamw(stream,
               {.param = row.flat.parameter_shard().slice(at.begin, at.size()),
                .grad = row.flat.gradient_shard().slice(at.begin, at.size()),
                .m = row.m.tensor({row.mine.size()}).slice(at.begin, at.size()),
                .v = row.v.tensor({row.mine.size()}).slice(at.begin, at.size()),
                .lr = o.learning_rate,
                .beta1 = o.beta1,
                .beta2 = o.beta2,
                .weight_decay = row.flat.parameters()[i]->shape.rank() >= 2 ? o.weight_decay : 0,
                .step = step + 1,
                .grad_scale = Tensor(&scale, {1})});
  }
}
//! [update]

/// Norm, clipping and update, after the gradient shards of all ranks have been reduced.
/// @return the norm before clipping
inline double update_all(Stream& stream, comm::Communicator& world, std::deque<Row>& rows,
                         const train::TrainerOptions& o, int step) {
  const double before = norm(stream, world, rows);
  const double clip = std::min(o.grad_clip / (before + 1e-6), 1.0);
  for (Row& row : rows) update(stream, row, o, step, clip);
  return before;
}

/// Lesson 09's all-gathers, one for each unit.
inline void gather_all(Stream& stream, comm::Communicator& world, std::deque<Row>& rows) {
  for (Row& row : rows) {
    world.all_gather(stream, row.flat.parameter_shard(), row.flat.parameter_storage());
  }
}

/// Records what the lesson compares with the library's run. All ranks call it together.
inline void record(Trained& run, Context& context, comm::Communicator& world,
                   const std::deque<Row>& rows) {
  if (context.rank == 0) run.traffic = world.traffic(), run.weigh(context);
  for (const Row& row : rows) {
    std::vector<float> whole(row.flat.layout().padded_numel());  // without padding on four ranks
    world.all_gather(*context.compute, row.flat.parameter_shard(),
                     {whole.data(), {std::ssize(whole)}}, {.control = true});
    if (context.rank == 0) run.add_weights(whole);
  }
}

}  // namespace lesson
