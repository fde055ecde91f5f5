#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "frame/memory.h"
#include "gpt/gpt.h"
#include "nn/init.h"
#include "ops/adamw.h"
#include "ops/norm.h"

namespace lesson {

/// @file
/// @brief Lesson 01 moves its parameters as nanoGPT's train.py does, on one process.

using namespace nanofsdp;

/// A parameter, and the two moments that AdamW keeps for it (lesson 06).
struct Weight {
  nn::Parameter& parameter;
  Tensor m, v;
};

/// Gives every parameter its memory and nanoGPT's initial values.
inline std::vector<Weight> first_weights(gpt::GPT& model, Memory& memory, Generator& generator) {
  std::vector<Weight> weights;
  for (nn::Parameter* parameter : model.named_parameters()) {
    parameter->data = memory.zeros(parameter->shape);
    parameter->show_grad(memory.zeros(parameter->shape));
    weights.push_back({*parameter, memory.zeros(parameter->shape), memory.zeros(parameter->shape)});
  }
  for (const nn::Draw& draw : model.nanogpt_draws()) {
    nn::draw(generator, draw.init, draw.parameter->data.span<float>());
  }
  return weights;
}

/// One step as nanoGPT makes it: the gradient is clipped to a norm of 1 (lesson 16), and the
/// learning rate grows during the first steps.
inline void downhill(Memory& memory, std::span<const Weight> weights, int step) {
  double squares = 0;
  const Tensor sum(&squares, {1}, DType::float64);
  for (const auto& [p, m, v] : weights) ops::squared_norm(memory.stream(), {p.grad(), sum});
  const Tensor norm = memory.zeros({1}), scale = memory.zeros({1});
  ops::clip_coefficient(memory.stream(), {sum, 1.0, norm, scale});
  for (const auto& [p, m, v] : weights) {
    ops::adamw(memory.stream(), {.param = p.data,
                                 .grad = p.grad(),
                                 .m = m,
                                 .v = v,
                                 .lr = 1e-3 * (step + 1) / 101,
                                 .beta2 = 0.99,
                                 .weight_decay = p.shape.rank() >= 2 ? 0.1 : 0,
                                 .step = step + 1,
                                 .grad_scale = scale});
    std::ranges::fill(p.grad().span<float>(), 0.0F);
  }
}

}  // namespace lesson
