#include "zero_1_optimizer_exercise.h"

using nanofsdp::Stream;
using nanofsdp::Tensor;
using nanofsdp::comm::Communicator;

void sharded_momentum_step(Stream& stream, Communicator& world, std::span<float> parameters,
                           std::span<float> gradient, std::span<float> momentum, float lr) {
  const auto s = static_cast<std::int64_t>(momentum.size()), W = std::int64_t{world.size()};
  const Tensor all(parameters.data(), {W * s}), grads(gradient.data(), {W * s});
  const Tensor mine = all.slice(world.rank() * s, s), grad = grads.slice(world.rank() * s, s);
  world.reduce_scatter(stream, grads, grad, nanofsdp::comm::ReduceOp::average);
  for (std::int64_t i = 0; i < s; ++i) {
    momentum[i] = 0.9f * momentum[i] + grad.f32()[i];
    mine.f32()[i] -= lr * momentum[i];
  }
  world.all_gather(stream, mine, all);
}
