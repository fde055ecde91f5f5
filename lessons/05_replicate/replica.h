#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "gpt/gpt.h"
#include "nn/loss.h"
#include "nn/tape.h"
#include "ops/adamw.h"
#include "train/options.h"

/// @file
/// @brief The part that a rank of lesson 05 does by itself: the training of lessons 01 to 03, on
/// its own rows. It communicates with no other rank.

namespace lesson {

using namespace nanofsdp;

/// Lesson 01's options, with a smaller model and a constant learning rate.
inline train::TrainerOptions recipe() {
  train::TrainerOptions o;
  o.block_size = 32, o.n_layer = 2, o.n_embd = 64;
  o.decay_lr = false;
  o.strategy = fsdp::ShardingStrategy::no_shard;
  return o;
}

inline gpt::GPTConfig config_of(const train::TrainerOptions& o, const data::Dataset& text) {
  const std::int64_t V = text.tokenizer().vocab_size();
  return {o.block_size, V, o.n_layer, o.n_head, o.n_embd, 0, o.bias};
}

//! [owned]
// What a rank keeps for each parameter: its values, its gradient, and Adam's two moments.
struct Owned {
  nn::Parameter* parameter;
  std::vector<float> memory = std::vector<float>(4 * parameter->shape.numel());
  Tensor part(int i) { return {memory.data() + i * parameter->shape.numel(), parameter->shape}; }
};

inline std::vector<Owned> replicate(gpt::GPT& model, Generator& generator) {
  std::vector<Owned> all;
  for (nn::Parameter* p : model.named_parameters()) {
    all.push_back({p});  // its memory does not move when `all` grows
    p->data = all.back().part(0), p->show_grad(all.back().part(1));
  }
  for (const auto& [p, init] : model.nanogpt_draws()) {
    nn::draw(generator, init, p->data.span<float>());
  }
  return all;
}
//! [owned]

struct Replica {
  Replica(Context& context, const train::TrainerOptions& o, const data::Dataset& text)
      : generator(o.seed),
        model(config_of(o, text)),
        all(replicate(model, generator)),
        tape(context),
        batch_size(o.batch_size),
        rows{context.rank * o.batch_size / context.world_size, o.batch_size / context.world_size},
        x(rows.count * o.block_size),
        y(x.size()) {}

  /// Draws the next batch. Every rank draws all rows, and keeps its own.
  void draw(const data::Dataset& text) {
    text.draw(data::Split::train, generator, batch_size, rows, {x, y});
  }

  //! [backward]
  double forward_backward() {
    const Tensor inputs = tokens(x), targets = tokens(y);  // of this rank's rows
    double loss = 0;                                       // summed over their tokens
    tape.begin(/*training=*/true);
    const Tensor logits = model.forward(tape, inputs);
    nn::cross_entropy(tape, logits, targets, Tensor(&loss, {1}, DType::float64));
    const float mean = 1.0f / static_cast<float>(inputs.numel());
    model.backward(tape, nn::cross_entropy_backward(tape, mean));
    tape.end_backward();
    return loss;
  }
  //! [backward]

  /// The norm of the whole gradient.
  double norm() const {
    double squares = 0;
    for (const Owned& own : all) {
      for (const double g : own.parameter->grad().span<float>()) squares += g * g;
    }
    return std::sqrt(squares);
  }

  Tensor tokens(std::vector<std::int32_t>& of) const {
    const auto n = static_cast<std::int64_t>(of.size());
    return {of.data(), {rows.count, n / rows.count}, DType::int32};
  }

  Generator generator;
  gpt::GPT model;
  std::vector<Owned> all;
  nn::Tape tape;
  std::int64_t batch_size;
  data::BatchRows rows;
  std::vector<std::int32_t> x, y;
};

/// One step of AdamW. Then sets the gradient to zero.
/// @param clip multiplies the gradient
inline void update(Stream& stream, Owned& own, const train::TrainerOptions& o, int step,
                   double clip) {
  nn::Parameter& p = *own.parameter;
  auto scale = static_cast<float>(clip);
  ops::adamw(stream, {.param = p.data,
                      .grad = p.grad(),
                      .m = own.part(2),
                      .v = own.part(3),
                      .lr = o.learning_rate,
                      .beta1 = o.beta1,
                      .beta2 = o.beta2,
                      .weight_decay = p.shape.rank() >= 2 ? o.weight_decay : 0,
                      .step = step + 1,
                      .grad_scale = Tensor(&scale, {1})});
  std::ranges::fill(p.grad().span<float>(), 0.0f);
}

}  // namespace lesson
