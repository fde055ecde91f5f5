#include "gpt/attention.h"

#include "ops/attention.h"

namespace nanofsdp::gpt {

CausalSelfAttention::CausalSelfAttention(const GPTConfig& config)
    : heads_(static_cast<int>(config.n_head)),
      dropout_(config.dropout),
      c_attn_({.in = config.n_embd, .out = 3 * config.n_embd, .bias = config.bias}),
      c_proj_({.in = config.n_embd, .out = config.n_embd, .bias = config.bias}),
      resid_dropout_(config.dropout) {
  add("c_attn", c_attn_);
  add("c_proj", c_proj_);
  add("resid_dropout", resid_dropout_);
}

Tensor CausalSelfAttention::do_forward(nn::Tape& tape, Tensor x) {
  Tensor qkv = c_attn_.forward(tape, x);  // [B, T, 3C]
  if (tape.cache() != nullptr) qkv = tape.cache()->append(tape.stream(), this, qkv);
  // With a cache, T also counts the cached positions before those of x.
  const std::int64_t T = qkv.dim(1), C = x.dim(2);
  const Tensor y = tape.allocate(x.shape());
  const Tensor lse = tape.allocate({x.dim(0), heads_, x.dim(1)}, DType::float32);
  {
    const nn::Tape::Scope temporaries(tape);
    const auto scratch = tape.allocate({ops::attention_scratch_numel(T, tape.stream().threads())});
    ops::attention(tape.stream(), ops::AttentionForward{.q = {qkv, 0, heads_},
                                                        .k = {qkv, C, heads_},
                                                        .v = {qkv, 2 * C, heads_},
                                                        .y = y,
                                                        .lse = lse,
                                                        .scratch = scratch,
                                                        .dropout = tape.training() ? dropout_ : 0,
                                                        .key = tape.draw_mask(),
                                                        .first = T - x.dim(1)});
  }
  tape.save({qkv, y, lse});
  return resid_dropout_.forward(tape, c_proj_.forward(tape, y));
}

Tensor CausalSelfAttention::do_backward(nn::Tape& tape, Tensor dy) {
  const Tensor d = c_proj_.backward(tape, resid_dropout_.backward(tape, dy));
  const auto [qkv, y, lse] = tape.restore<3>();
  const std::int64_t T = y.dim(1), C = y.dim(2);
  const Tensor dqkv = tape.allocate(qkv.shape());
  const auto scratch = tape.allocate({ops::attention_scratch_numel(T, tape.stream().threads())});
  ops::attention(tape.stream(), ops::AttentionBackward{.dy = d,
                                                       .q = {qkv, 0, heads_},
                                                       .k = {qkv, C, heads_},
                                                       .v = {qkv, 2 * C, heads_},
                                                       .y = y,
                                                       .lse = lse,
                                                       .dq = {dqkv, 0, heads_},
                                                       .dk = {dqkv, C, heads_},
                                                       .dv = {dqkv, 2 * C, heads_},
                                                       .scratch = scratch,
                                                       .dropout = dropout_,
                                                       .key = tape.redraw_mask()});
  return c_attn_.backward(tape, dqkv);
}

}  // namespace nanofsdp::gpt
