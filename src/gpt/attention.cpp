#include "gpt/attention.h"

#include <cmath>

#include "ops/attention.h"

namespace nanofsdp::gpt {

CausalSelfAttention::CausalSelfAttention(const GPTConfig& config, int first_site)
    : heads_(static_cast<int>(config.n_head)),
      dropout_(config.dropout),
      site_(first_site),
      c_attn_({.in = config.n_embd, .out = 3 * config.n_embd, .bias = config.bias}),
      c_proj_({.in = config.n_embd, .out = config.n_embd, .bias = config.bias}),
      resid_dropout_(config.dropout, first_site + 1) {
  add("c_attn", c_attn_);
  add("c_proj", c_proj_);
  add("resid_dropout", resid_dropout_);
}

Tensor CausalSelfAttention::do_forward(nn::Tape& tape, Tensor x) {
  Tensor qkv = c_attn_.forward(tape, x);  // [B, T, 3C]
  if (tape.cache() != nullptr) qkv = tape.cache()->append(tape.stream(), this, qkv);
  const std::int64_t T = qkv.dim(1);  // with a cache also the positions before those of x
  const Tensor y = tape.allocate(x.shape());
  const Tensor lse = tape.allocate({x.dim(0), heads_, x.dim(1)});
  {
    const nn::Tape::Scope temporaries(tape);
    ops::attention(
        tape.stream(),
        ops::AttentionForward{
            .qkv = qkv,
            .y = y,
            .lse = lse,
            .scratch = tape.allocate({ops::attention_scratch_numel(T, tape.stream().threads())}),
            .heads = heads_,
            .dropout = tape.training() ? dropout_ : 0,
            .key = tape.dropout_key(site_),
            .first = T - x.dim(1)});
  }
  tape.save({qkv, y, lse});
  return resid_dropout_.forward(tape, c_proj_.forward(tape, y));
}

Tensor CausalSelfAttention::do_backward(nn::Tape& tape, Tensor dy) {
  const Tensor d = c_proj_.backward(tape, resid_dropout_.backward(tape, dy));
  const auto [qkv, y, lse] = tape.restore<3>();
  const Tensor dqkv = tape.allocate(qkv.shape());
  ops::attention(tape.stream(),
                 ops::AttentionBackward{.dy = d,
                                        .qkv = qkv,
                                        .y = y,
                                        .lse = lse,
                                        .dqkv = dqkv,
                                        .scratch = tape.allocate({ops::attention_scratch_numel(
                                            y.dim(1), tape.stream().threads())}),
                                        .heads = heads_,
                                        .dropout = dropout_,
                                        .key = tape.dropout_key(site_)});
  return c_attn_.backward(tape, dqkv);
}

}  // namespace nanofsdp::gpt
