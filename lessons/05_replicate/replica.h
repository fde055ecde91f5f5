#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "gpt/gpt.h"
#include "gpt/loss.h"
#include "nn/tape.h"
#include "ops/adamw.h"
#include "train/dataset.h"
#include "train/options.h"

/// @file
/// @brief What a rank of lesson 05 does by itself: the training of lessons 01 to 03 on its own
/// rows. Nothing in here knows that there are other ranks.

namespace lesson {

using namespace nanofsdp;

inline gpt::GPTConfig config_of(const train::TrainOptions& o, const train::Dataset& text) {
  const std::int64_t V = text.tokenizer().vocab_size();
  return {o.block_size, V, o.n_layer, o.n_head, o.n_embd, 0, o.bias};
}

//! [owned]
// What a rank keeps of each parameter: the values, the gradient, and Adam's two moments.
struct Owned {
  nn::Parameter* parameter;
  std::vector<float> memory = std::vector<float>(4 * parameter->shape.numel());
  Tensor part(int i) { return {memory.data() + i * parameter->shape.numel(), parameter->shape}; }
};

inline std::vector<Owned> replicate(gpt::GPT& model, Generator& generator) {
  std::vector<Owned> all;
  for (nn::Parameter* p : model.named_parameters()) {
    all.push_back({p});  // what it points to stays where it is when `all` grows
    p->data = all.back().part(0), p->grad = all.back().part(1);
  }
  for (const auto& [p, init] : model.nanogpt_draws()) {
    nn::draw(generator, init, p->data.span<float>());
  }
  return all;
}
//! [owned]

//! [backward]
inline double forward_backward(gpt::GPT& model, nn::Tape& tape, Tensor x, Tensor y) {
  double loss = 0;  // summed over this rank's tokens
  tape.begin(/*training=*/true);
  gpt::cross_entropy(tape, model.forward(tape, x), y, Tensor(&loss, {1}, DType::float64));
  model.backward(tape, gpt::cross_entropy_backward(tape, 1.0f / static_cast<float>(x.numel())));
  tape.end_backward();
  return loss;
}
//! [backward]

inline double norm_of(const std::vector<Owned>& all) {
  double squares = 0;
  for (const Owned& own : all) {
    for (const double g : own.parameter->grad.span<float>()) squares += g * g;
  }
  return std::sqrt(squares);
}

/// One step of AdamW; forgets the gradient.
/// @param clip what the gradient is multiplied by
inline void update(Stream& stream, Owned& own, const train::TrainOptions& o, int step, float clip) {
  nn::Parameter& p = *own.parameter;
  ops::adamw(stream, {.param = p.data,
                      .grad = p.grad,
                      .m = own.part(2),
                      .v = own.part(3),
                      .lr = o.learning_rate,
                      .beta1 = o.beta1,
                      .beta2 = o.beta2,
                      .weight_decay = p.shape.rank() >= 2 ? o.weight_decay : 0,
                      .step = step + 1,
                      .grad_scale = Tensor(&clip, {1})});
  std::ranges::fill(p.grad.span<float>(), 0.0f);
}

}  // namespace lesson
