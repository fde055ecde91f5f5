#pragma once

#include <nanofsdp/nanofsdp.h>

#include <cmath>
#include <complex>
#include <deque>
#include <memory>
#include <string>

/// @file
/// @brief A Llama (Touvron et al. 2023, arXiv 2302.13971), as a user of the library would write it.
/// Parameters have Hugging Face's names, so that its files of weights can be read. For the CPU.

namespace llama {

using namespace nanofsdp;
using SharedParameter = std::shared_ptr<nn::Parameter>;
using Matrix = std::unique_ptr<nn::Module>;

/// num_attention_heads is a multiple of num_key_value_heads: several heads of queries share one
/// head of keys and one of values.
struct Config {
  int vocab_size, hidden_size, intermediate_size;  // the last is the width inside the MLP
  int num_hidden_layers, num_attention_heads, num_key_value_heads;
  float rms_norm_eps = 1e-5f;
  double rope_theta = 10000;
  int head_dim() const { return hidden_size / num_attention_heads; }
};

/// Makes the matrix of that name, "q_proj", "up_proj" ..., without a bias. lora.h has another
/// function of this type, which adds adapters.
using MakeMatrix = std::function<Matrix(const std::string&, std::int64_t in, std::int64_t out)>;
inline Matrix linear(const std::string&, std::int64_t in, std::int64_t out) {
  return std::make_unique<nn::Linear>(nn::Linear::Options{.in = in, .out = out, .bias = false});
}

//! [rms_norm]
/// y = weight * x / sqrt(mean(x * x) + eps) in every row (Zhang and Sennrich 2019, arXiv
/// 1910.07467).
struct RMSNorm final : nn::Module {
  RMSNorm(std::int64_t n, float eps) : n(n), eps(eps) { add("weight", weight); }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape()), scale = tape.allocate({x.numel() / n});
    tape.stream().enqueue(moves({x}, {y}, /*flops=*/4), [=, this, gain = weight->data] {
      for (std::int64_t row = 0; row < scale.numel(); ++row) {
        const float *in = x.f32() + row * n, *w = gain.f32();
        double squares = 0;
        for (int i = 0; i < n; ++i) squares += double{in[i]} * in[i];
        const float r = scale.f32()[row] = static_cast<float>(1 / std::sqrt(squares / n + eps));
        for (int i = 0; i < n; ++i) y.f32()[row * n + i] = w[i] * (in[i] * r);
      }
    });
    tape.save({x, scale});
    return y;
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const auto [x, scale] = tape.restore<2>();
    const Tensor dx = tape.allocate(x.shape()), gain = weight->data, dgain = weight->grad_to_add_to();
    tape.stream().enqueue(moves({dy, x}, {dx}, 12), [=, this, x = x, scale = scale] {
      for (std::int64_t row = 0; row < scale.numel(); ++row) {
        const float *in = x.f32() + row * n, *d = dy.f32() + row * n, *w = gain.f32();
        const float r = scale.f32()[row];
        double along = 0;  // the gradient's part along x is taken out: a longer x has the same y
        for (int i = 0; i < n; ++i) along += double{d[i]} * w[i] * (in[i] * r);
        for (int i = 0; i < n; ++i) {
          dx.f32()[row * n + i] = r * (w[i] * d[i] - static_cast<float>(along / n) * (in[i] * r));
          if (!dgain.empty()) dgain.f32()[i] += d[i] * (in[i] * r);  // empty: frozen
        }
      }
    });
    return dx;
  }

  std::int64_t n;
  float eps;
  SharedParameter weight = std::make_shared<nn::Parameter>(Shape{n}, nn::Init::ones());
};
//! [rms_norm]

//! [rotary]
/// Rotary positions (Su et al. 2021, arXiv 2104.09864): features i and i + D/2 of every head are a
/// point in a plane, which is turned by position * theta^(-2i / D). Writes over its input.
struct Rotary final : nn::Module {
  Rotary(int D, double theta) : D(D), theta(theta) {}

  Tensor do_forward(nn::Tape& tape, Tensor x) override { return turn(tape.stream(), x, 1); }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override { return turn(tape.stream(), dy, -1); }

  Tensor turn(Stream& stream, Tensor x, int direction) const {
    stream.enqueue(moves({x}, {x}, 50), [=, this] {
      for (std::int64_t point = 0; point < x.numel() / 2; ++point) {
        const std::int64_t i = point % (D / 2), head = 2 * (point - i);
        const std::int64_t position = head / x.dim(2) % x.dim(1);
        const double angle = direction * position * std::pow(theta, -2.0 * i / D);
        float &a = x.f32()[head + i], &b = x.f32()[head + i + D / 2];
        const auto turned = std::complex<double>(a, b) * std::polar(1.0, angle);
        a = turned.real(), b = turned.imag();
      }
    });
    return x;
  }

  int D;
  double theta;
};
//! [rotary]

/// Grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245).
struct Attention final : nn::Module {
  Attention(const Config& c, const MakeMatrix& make)
      : heads(c.num_attention_heads),
        kv_heads(c.num_key_value_heads),
        rotary(c.head_dim(), c.rope_theta),
        q_proj(make("q_proj", c.hidden_size, c.hidden_size)),
        k_proj(make("k_proj", c.hidden_size, kv_heads * c.head_dim())),
        v_proj(make("v_proj", c.hidden_size, kv_heads * c.head_dim())),
        o_proj(make("o_proj", c.hidden_size, c.hidden_size)) {
    add("q_proj", *q_proj), add("k_proj", *k_proj), add("v_proj", *v_proj);
    add("o_proj", *o_proj), add("rotary", rotary);
  }

  ops::Heads queries(Tensor rows) const { return {rows, 0, heads}; }
  ops::Heads keys(Tensor rows) const { return {rows, 0, kv_heads}; }  // and values

  //! [attention]
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor q = rotary.forward(tape, q_proj->forward(tape, x));
    const Tensor k = rotary.forward(tape, k_proj->forward(tape, x));
    const Tensor v = v_proj->forward(tape, x), y = tape.allocate(q.shape());
    ops::AttentionForward a{.q = queries(q), .k = keys(k), .v = keys(v), .y = y};
    a.lse = tape.allocate({x.dim(0), heads, x.dim(1)});
    a.scratch = tape.allocate({ops::attention_scratch_numel(x.dim(1), tape.stream().threads())});
    ops::attention(tape.stream(), a);
    tape.save({q, k, v, y, a.lse});
    return o_proj->forward(tape, y);
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor d = o_proj->backward(tape, dy);
    const auto [q, k, v, y, lse] = tape.restore<5>();
    ops::AttentionBackward a{.dy = d, .q = queries(q), .k = keys(k), .v = keys(v), .y = y};
    a.lse = lse, a.dq = queries(tape.allocate(q.shape()));
    a.dk = keys(tape.allocate(k.shape())), a.dv = keys(tape.allocate(v.shape()));
    a.scratch = tape.allocate({ops::attention_scratch_numel(q.dim(1), tape.stream().threads())});
    ops::attention(tape.stream(), a);
    const Tensor dx = v_proj->backward(tape, a.dv.rows);  // in the reverse order of forward
    const auto by_k = k_proj->backward(tape, rotary.backward(tape, a.dk.rows));
    ops::accumulate(tape.stream(), {.in = by_k, .out = dx});
    const auto by_q = q_proj->backward(tape, rotary.backward(tape, a.dq.rows));
    ops::accumulate(tape.stream(), {.in = by_q, .out = dx});
    return dx;
  }
  //! [attention]

  int heads, kv_heads;
  Rotary rotary;
  Matrix q_proj, k_proj, v_proj, o_proj;
};

/// down(silu(gate(x)) * up(x)): SwiGLU (Shazeer 2020, arXiv 2002.05202).
struct MLP final : nn::Module {
  MLP(const Config& c, const MakeMatrix& make)
      : gate_proj(make("gate_proj", c.hidden_size, c.intermediate_size)),
        up_proj(make("up_proj", c.hidden_size, c.intermediate_size)),
        down_proj(make("down_proj", c.intermediate_size, c.hidden_size)) {
    add("gate_proj", *gate_proj), add("up_proj", *up_proj), add("down_proj", *down_proj);
  }

  static float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor gate = gate_proj->forward(tape, x), up = up_proj->forward(tape, x);
    const Tensor y = tape.allocate(gate.shape());
    tape.stream().enqueue([=] {  // no cost is stated: it reads and writes what was allocated
      const float *g = gate.f32(), *u = up.f32();
      for (int i = 0; i < y.numel(); ++i) y.f32()[i] = g[i] * sigmoid(g[i]) * u[i];
    });
    tape.save({gate, up});
    return down_proj->forward(tape, y);
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor d = down_proj->backward(tape, dy);
    const auto [gate, up] = tape.restore<2>();
    tape.stream().enqueue(moves({d, gate, up}, {gate, up}, 20), [=, gate = gate, up = up] {
      for (int i = 0; i < d.numel(); ++i) {  // gradients, written over their tensors
        const float g = gate.f32()[i], u = up.f32()[i], s = sigmoid(g);
        up.f32()[i] = d.f32()[i] * g * s;
        gate.f32()[i] = d.f32()[i] * u * s * (1 + g * (1 - s));
      }
    });
    const Tensor dx = up_proj->backward(tape, up);
    ops::accumulate(tape.stream(), {.in = gate_proj->backward(tape, gate), .out = dx});
    return dx;
  }

  Matrix gate_proj, up_proj, down_proj;
};

/// One layer, and one unit of FSDP. Backward writes over dy.
struct Block final : nn::Module {
  Block(const Config& c, const MakeMatrix& make)
      : attn(c, make),
        mlp(c, make),
        norm_1(c.hidden_size, c.rms_norm_eps),
        norm_2(c.hidden_size, c.rms_norm_eps) {
    add("self_attn", attn), add("mlp", mlp);
    add("input_layernorm", norm_1), add("post_attention_layernorm", norm_2);
  }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor a = attn.forward(tape, norm_1.forward(tape, x));
    ops::add(tape.stream(), {.a = x, .b = a, .out = a});
    const Tensor m = mlp.forward(tape, norm_2.forward(tape, a));
    ops::add(tape.stream(), {.a = a, .b = m, .out = m});
    return m;
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const nn::Tape::Scope temporaries(tape);
    Stream& stream = tape.stream();
    ops::accumulate(stream, {.in = norm_2.backward(tape, mlp.backward(tape, dy)), .out = dy});
    ops::accumulate(stream, {.in = norm_1.backward(tape, attn.backward(tape, dy)), .out = dy});
    return dy;
  }

  Attention attn;
  MLP mlp;
  RMSNorm norm_1, norm_2;
};

/// Tokens [B, T] to logits [B, T, vocab_size].
struct Llama final : nn::Module {
  explicit Llama(const Config& c, const MakeMatrix& make = linear)
      : embed_tokens(c.vocab_size, c.hidden_size, nn::Init::normal(0.02)),
        norm(c.hidden_size, c.rms_norm_eps),
        lm_head({.in = c.hidden_size, .out = c.vocab_size, .bias = false}) {
    add("model.embed_tokens", embed_tokens);
    for (int i = 0; i < c.num_hidden_layers; ++i)
      add("model.layers." + std::to_string(i), layers.emplace_back(c, make));
    add("model.norm", norm), add("lm_head", lm_head);
  }

  Tensor do_forward(nn::Tape& tape, Tensor tokens) override {
    Tensor x = embed_tokens.forward(tape, tokens);
    for (Block& layer : layers) x = layer.forward(tape, x);
    return lm_head.forward(tape, norm.forward(tape, x));
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    Tensor d = norm.backward(tape, lm_head.backward(tape, dy));
    for (std::size_t i = layers.size(); i-- > 0;) d = layers[i].backward(tape, d);
    return embed_tokens.backward(tape, d);
  }

  nn::Embedding embed_tokens;
  std::deque<Block> layers;
  RMSNorm norm;
  nn::Linear lm_head;
};

}  // namespace llama
