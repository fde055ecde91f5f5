#pragma once

#include <cmath>
#include <cstddef>
#include <utility>

#include "nn/layer_norm.h"
#include "nn/linear.h"
#include "ops/elementwise.h"
#include "support/plain_models.h"

namespace nanofsdp::testing {

/// @file
/// @brief A small encoder-decoder: modules that take several tensors and return two. It computes on
/// the CPU.

inline constexpr std::int64_t kTranslatorWidth = 5;

/// Two tensors that a forward returns; or their gradients.
using TwoTensors = std::pair<Tensor, Tensor>;

inline Tensor add_up(nn::Tape& tape, Tensor a, Tensor b) {
  const Tensor sum = tape.allocate(a.shape());
  ops::add(tape.stream(), {.a = a, .b = b, .out = sum});
  return sum;
}

/// Each row of x reads those rows of the memory that the mask allows: y = W v, where W are the
/// weights of q and k. It returns y and W.
class CrossAttention final : public nn::Module {
 public:
  CrossAttention() { add("q", q_), add("k", k_), add("v", v_), add("out", out_); }

  /// @param x [m, width] @param memory [n, width] @param mask [m, n], 1 or 0
  /// @returns y [m, width], and the weights [m, n]
  TwoTensors forward(nn::Tape& tape, Tensor x, Tensor memory, Tensor mask) {
    return hooked_forward(tape, [&] {
      const Tensor q = q_.forward(tape, x), k = k_.forward(tape, memory);
      const Tensor v = v_.forward(tape, memory), weights = tape.allocate(mask.shape());
      const Tensor mixed = tape.allocate(x.shape());
      weigh(q, k, mask, weights);
      for (std::int64_t i = 0; i < mixed.numel(); ++i) mixed.f32()[i] = 0;
      each(mask, [&](std::int64_t r, std::int64_t j) {
        for (std::int64_t c = 0; c < kTranslatorWidth; ++c)
          at(mixed, r, c) += at(weights, r, j) * at(v, j, c);
      });
      tape.save({q, k, v, mask, weights});
      return TwoTensors(out_.forward(tape, mixed), weights);
    });
  }

  /// @returns the gradients of x and of the memory
  TwoTensors backward(nn::Tape& tape, Tensor dy, Tensor dweights) {
    return hooked_backward(tape, [&] {
      const Tensor dmixed = out_.backward(tape, dy);
      const auto [q, k, v, mask, weights] = tape.restore<5>();
      const Tensor dq = zeros(tape, q), dk = zeros(tape, k), dv = zeros(tape, v);
      const Tensor d = tape.allocate(mask.shape());  // the gradient of the weights
      each(mask, [&](std::int64_t r, std::int64_t j) {
        at(d, r, j) = at(dweights, r, j);
        for (std::int64_t c = 0; c < kTranslatorWidth; ++c) {
          at(d, r, j) += at(dmixed, r, c) * at(v, j, c);
          at(dv, j, c) += at(dmixed, r, c) * at(weights, r, j);
        }
      });
      each(mask, [&](std::int64_t r, std::int64_t j) {
        const float slope = at(mask, r, j) * (1 - at(weights, r, j) * at(weights, r, j));
        for (std::int64_t c = 0; c < kTranslatorWidth; ++c) {
          at(dq, r, c) += slope * at(d, r, j) * at(k, j, c);
          at(dk, j, c) += slope * at(d, r, j) * at(q, r, c);
        }
      });
      const Tensor of_v = v_.backward(tape, dv), of_k = k_.backward(tape, dk);
      return TwoTensors(q_.backward(tape, dq), add_up(tape, of_v, of_k));
    });
  }

 private:
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }

  static float& at(Tensor x, std::int64_t row, std::int64_t column) {
    return x.f32()[row * x.dim(1) + column];
  }
  static void each(Tensor mask, const auto& visit) {
    for (std::int64_t r = 0; r < mask.dim(0); ++r) {
      for (std::int64_t j = 0; j < mask.dim(1); ++j) visit(r, j);
    }
  }
  static Tensor zeros(nn::Tape& tape, Tensor like) {
    const Tensor x = tape.allocate(like.shape());
    ops::fill(tape.stream(), {.x = x, .value = 0});
    return x;
  }
  // W = mask * tanh(q k^T)
  static void weigh(Tensor q, Tensor k, Tensor mask, Tensor weights) {
    each(mask, [&](std::int64_t r, std::int64_t j) {
      float score = 0;
      for (std::int64_t c = 0; c < kTranslatorWidth; ++c) score += at(q, r, c) * at(k, j, c);
      at(weights, r, j) = at(mask, r, j) * std::tanh(score);
    });
  }

  nn::Linear q_{{.in = kTranslatorWidth, .out = kTranslatorWidth}};
  nn::Linear k_{{.in = kTranslatorWidth, .out = kTranslatorWidth}};
  nn::Linear v_{{.in = kTranslatorWidth, .out = kTranslatorWidth, .bias = false}};
  nn::Linear out_{{.in = kTranslatorWidth, .out = kTranslatorWidth}};
};

/// A layer of one tensor: a norm and a product.
class PlainLayer final : public nn::Module {
 public:
  PlainLayer() { add("norm", norm_), add("linear", linear_); }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    return linear_.forward(tape, norm_.forward(tape, x));
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    return norm_.backward(tape, linear_.backward(tape, dy));
  }

  nn::LayerNorm norm_{kTranslatorWidth, true};
  nn::Linear linear_{{.in = kTranslatorWidth, .out = kTranslatorWidth}};
};

/// The encoder reads the source, and two layers of attention read what it has written.
class Translator final : public nn::Module {
 public:
  Translator() {
    add("encoder", encoder), add("first", first), add("second", second), add("head", head_);
  }

  /// @returns y [m, width], and the weights of the second attention [m, n]
  TwoTensors forward(nn::Tape& tape, Tensor source, Tensor target, Tensor mask) {
    return hooked_forward(tape, [&] {
      const Tensor memory = encoder.forward(tape, source);
      const Tensor x = add_up(tape, target, first.forward(tape, target, memory, mask).first);
      const auto [y, weights] = second.forward(tape, x, memory, mask);
      return TwoTensors(head_.forward(tape, add_up(tape, x, y)), weights);
    });
  }
  /// @returns the gradients of the source and the target
  TwoTensors backward(nn::Tape& tape, Tensor dy, Tensor dweights) {
    return hooked_backward(tape, [&] {
      const Tensor d = head_.backward(tape, dy), none = tape.allocate(dweights.shape());
      ops::fill(tape.stream(), {.x = none, .value = 0});
      const auto [dx, dmemory] = second.backward(tape, d, dweights);
      const Tensor dfirst = add_up(tape, d, dx);
      const auto [dtarget, again] = first.backward(tape, dfirst, none);
      const Tensor dsource = encoder.backward(tape, add_up(tape, dmemory, again));
      return TwoTensors(dsource, add_up(tape, dfirst, dtarget));
    });
  }

  PlainLayer encoder;
  CrossAttention first, second;

 private:
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }

  nn::Linear head_{{.in = kTranslatorWidth, .out = kTranslatorWidth}};
};

}  // namespace nanofsdp::testing
