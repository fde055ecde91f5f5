#include "gpt/block.h"

#include "ops/elementwise.h"
#include "ops/gelu.h"

namespace nanofsdp::gpt {

MLP::MLP(const GPTConfig& config)
    : c_fc_({.in = config.n_embd, .out = 4 * config.n_embd, .bias = config.bias}),
      c_proj_({.in = 4 * config.n_embd, .out = config.n_embd, .bias = config.bias}),
      dropout_(config.dropout) {
  add("c_fc", c_fc_);
  add("c_proj", c_proj_);
  add("dropout", dropout_);
}

Tensor MLP::do_forward(nn::Tape& tape, Tensor x) {
  const Tensor hidden = c_fc_.forward(tape, x);
  const Tensor active = tape.allocate(hidden.shape());
  ops::gelu(tape.stream(), ops::GeluForward{.x = hidden, .y = active});
  tape.save({hidden});
  return dropout_.forward(tape, c_proj_.forward(tape, active));
}

Tensor MLP::do_backward(nn::Tape& tape, Tensor dy) {
  const Tensor d = c_proj_.backward(tape, dropout_.backward(tape, dy));
  const auto [hidden] = tape.restore<1>();
  ops::gelu(tape.stream(), ops::GeluBackward{.dy = d, .x = hidden, .dx = d});
  return c_fc_.backward(tape, d);
}

Block::Block(const GPTConfig& config)
    : ln_1_(config.n_embd, config.bias),
      attn_(config),
      ln_2_(config.n_embd, config.bias),
      mlp_(config) {
  add("ln_1", ln_1_);
  add("attn", attn_);
  add("ln_2", ln_2_);
  add("mlp", mlp_);
}

// The layer norm after each sum reads the sum again. One kernel for both would save that pass. But
// it would have two inputs, and the forward of a module, which hooks surround, has one. Also, the
// layer norm after the second sum belongs to the next unit.
Tensor Block::do_forward(nn::Tape& tape, Tensor x) {
  const Tensor a = attn_.forward(tape, ln_1_.forward(tape, x));
  ops::add(tape.stream(), {.a = x, .b = a, .out = a});
  const Tensor m = mlp_.forward(tape, ln_2_.forward(tape, a));
  ops::add(tape.stream(), {.a = a, .b = m, .out = m});
  return m;
}

Tensor Block::do_backward(nn::Tape& tape, Tensor dy) {
  const auto add_gradient_of = [&](nn::Module& norm, nn::Module& layer) {
    const nn::Tape::Scope temporaries(tape);
    const Tensor d = norm.backward(tape, layer.backward(tape, dy));
    ops::accumulate(tape.stream(), {.in = d, .out = dy});
  };
  add_gradient_of(ln_2_, mlp_);
  add_gradient_of(ln_1_, attn_);
  return dy;
}

}  // namespace nanofsdp::gpt
