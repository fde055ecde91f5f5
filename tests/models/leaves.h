#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>

#include "models/pass.h"
#include "models/program.h"
#include "nn/dropout.h"
#include "ops/gelu.h"
#include "ops/layer_norm.h"
#include "ops/matmul.h"

namespace models {

namespace ops = nanofsdp::ops;

/// @file
/// @brief The modules that compute.

using SharedParameter = std::shared_ptr<nn::Parameter>;

/// Weights of one unit that have several owners, by tie and number of dimensions.
using Ties = std::map<std::pair<int, std::size_t>, SharedParameter>;

/// A module with a weight, its own or a tied one, and perhaps with a bias.
class Leaf : public Counted {
 public:
  Leaf(const Node& node, nanofsdp::Shape shape, Ties& ties) {
    SharedParameter own;
    SharedParameter& weight = node.tie == 0 ? own : ties[{node.tie, shape.rank()}];
    if (!weight) weight = parameter(shape, node.frozen, node.half);
    add("weight", weight_ = weight);
    if (node.bias) add("bias", bias_ = parameter({shape[0]}, node.frozen_bias, node.half));
  }

 protected:
  std::span<const float> whole_weight() const {
    if (weight_->data.shape() == weight_->shape) return weight_->data.span<float>();
    throw std::logic_error("a module computes with a shard of its weight");
  }
  Tensor bias() const { return bias_ ? bias_->data : Tensor(); }
  Tensor bias_grad() const { return bias_ ? bias_->grad_to_add_to() : Tensor(); }

  SharedParameter weight_, bias_;

 private:
  static SharedParameter parameter(nanofsdp::Shape shape, bool frozen, bool half) {
    auto made = std::make_shared<nn::Parameter>(shape, nn::Init::uniform(1));
    made->requires_grad = !frozen;
    if (frozen && half) made->dtype = nanofsdp::DType::bfloat16;
    return made;
  }
};

class Linear final : public Leaf {
 public:
  Linear(const Node& node, int width, Ties& ties) : Leaf(node, {width, width}, ties) {}

 private:
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    ops::matmul(tape.stream(),
                ops::MatmulForward{.x = x, .weight = weight_->data, .bias = bias(), .y = y});
    tape.save({x});
    return y;
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    const auto [x] = tape.restore<1>();
    const Tensor dx = tape.allocate(x.shape());
    ops::matmul(tape.stream(), ops::MatmulBackward{.dy = dy,
                                                   .x = x,
                                                   .weight = weight_->data,
                                                   .dx = dx,
                                                   .dweight = weight_->grad_to_add_to(),
                                                   .dbias = bias_grad()});
    return dx;
  }
};

class LayerNorm final : public Leaf {
 public:
  LayerNorm(const Node& node, int width, Ties& ties) : Leaf(node, {width}, ties) {}

 private:
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    const Tensor mean = tape.allocate({x.shape()[0]}), rstd = tape.allocate({x.shape()[0]});
    ops::layer_norm(
        tape.stream(),
        ops::LayerNormForward{
            .x = x, .weight = weight_->data, .bias = bias(), .y = y, .mean = mean, .rstd = rstd});
    tape.save({x, mean, rstd});
    return y;
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    const auto [x, mean, rstd] = tape.restore<3>();
    const Tensor dx = tape.allocate(x.shape());
    ops::layer_norm(tape.stream(), ops::LayerNormBackward{.dy = dy,
                                                          .x = x,
                                                          .weight = weight_->data,
                                                          .mean = mean,
                                                          .rstd = rstd,
                                                          .dx = dx,
                                                          .dweight = weight_->grad_to_add_to(),
                                                          .dbias = bias_grad()});
    return dx;
  }
};

/// y = x * weight + bias, element by element, as a user writes it without the library's operators.
class Affine final : public Leaf {
 public:
  Affine(const Node& node, int width, Ties& ties) : Leaf(node, {width}, ties) {}

 private:
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    const std::span<const float> in = x.span<float>(), scale = whole_weight();
    const std::span<float> out = y.span<float>();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t column = i % scale.size();
      out[i] = in[i] * scale[column] + (bias_ ? bias_->data.span<float>()[column] : 0);
    }
    tape.save({x});
    return y;
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    const auto [x] = tape.restore<1>();
    const Tensor dx = tape.allocate(x.shape());
    const Tensor dweight = weight_->grad_to_add_to(), dbias = bias_grad();
    const std::span<const float> in = x.span<float>(), d = dy.span<float>(), scale = whole_weight();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t column = i % scale.size();
      dx.span<float>()[i] = d[i] * scale[column];
      if (!dweight.empty()) dweight.span<float>()[column] += d[i] * in[i];
      if (!dbias.empty()) dbias.span<float>()[column] += d[i];
    }
    return dx;
  }
};

/// y = x + weight. Its backward reads no parameter, like that of an embedding.
class Shift final : public Leaf {
 public:
  Shift(const Node& node, int width, Ties& ties) : Leaf(node, {width}, ties) {}

 private:
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape()), w = weight_->data;
    for (std::int64_t i = 0; i < x.numel(); ++i) y.f32()[i] = x.f32()[i] + w.f32()[i % w.numel()];
    return y;
  }
  Tensor compute_back(nn::Tape&, Tensor dy) override {
    const Tensor dw = weight_->grad_to_add_to();
    if (dw.empty()) return dy;
    for (std::int64_t i = 0; i < dy.numel(); ++i) dw.f32()[i % dw.numel()] += dy.f32()[i];
    return dy;
  }
};

class Gelu final : public Counted {
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    ops::gelu(tape.stream(), ops::GeluForward{.x = x, .y = y});
    tape.save({x});
    return y;
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    const auto [x] = tape.restore<1>();
    const Tensor dx = tape.allocate(x.shape());
    ops::gelu(tape.stream(), ops::GeluBackward{.dy = dy, .x = x, .dx = dx});
    return dx;
  }
};

class Identity final : public Counted {
  Tensor compute(nn::Tape&, Tensor x) override { return x; }
  Tensor compute_back(nn::Tape&, Tensor dy) override { return dy; }
};

/// The library's dropout: the mask depends on the pass, the rank and the place in forward.
class Dropout final : public Counted {
 public:
  Dropout() { add("dropout", dropout_); }

 private:
  Tensor compute(nn::Tape& tape, Tensor x) override { return dropout_.forward(tape, x); }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override { return dropout_.backward(tape, dy); }

  nn::Dropout dropout_{0.5F};
};

/// A dropout without the library's code, for the reference.
class PlainDropout final : public Counted {
  Tensor compute(nn::Tape& tape, Tensor x) override {
    return tape.training() ? drop(tape, x, tape.draw_mask()) : x;
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    return drop(tape, dy, tape.redraw_mask());
  }
  static Tensor drop(nn::Tape& tape, Tensor x, const nanofsdp::DropoutKey& mask) {
    const Tensor y = tape.allocate(x.shape());
    const std::int64_t width = x.shape()[1];
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const std::uint64_t row = nanofsdp::row_key(mask, i / width);
      const auto element = static_cast<std::uint32_t>(i % width);
      y.f32()[i] = nanofsdp::keep(row, element, nanofsdp::drop_threshold(0.5)) ? x.f32()[i] * 2 : 0;
    }
    return y;
  }
};

/// The identity with a weight that has no use, or whose gradient is zero.
class Unused final : public Leaf {
 public:
  Unused(const Node& node, int width, Ties& ties)
      : Leaf(node, {width}, ties), asks_(node.kind == Kind::silent) {}

 private:
  Tensor compute(nn::Tape&, Tensor x) override { return x; }
  Tensor compute_back(nn::Tape&, Tensor dy) override {
    if (asks_) weight_->grad_to_add_to();
    return dy;
  }

  bool asks_;
};

/// A module of two tensors: it returns x * weight and memory * weight.
class Two final : public nn::Module {
 public:
  explicit Two(int width) { add("weight", weight_ = parameter({width})); }

  using Pair = std::pair<Tensor, Tensor>;
  Pair forward(nn::Tape& tape, Tensor x, Tensor memory) {
    return hooked_forward(tape, [&] {
      pass->call();
      tape.save({x, memory});
      return Pair(times(tape, x), times(tape, memory));
    });
  }
  /// @returns the gradients of x and of the memory
  Pair backward(nn::Tape& tape, Tensor dy, Tensor dz) {
    return hooked_backward(tape, [&] {
      pass->call();
      const auto [x, memory] = tape.restore<2>();
      const Tensor dweight = weight_->grad_to_add_to();
      for (std::int64_t i = 0; i < x.numel() && !dweight.empty(); ++i) {
        dweight.f32()[i % dweight.numel()] +=
            dy.f32()[i] * x.f32()[i] + dz.f32()[i] * memory.f32()[i];
      }
      return Pair(times(tape, dy), times(tape, dz));
    });
  }

  Pass* pass = nullptr;  ///< the pass of its model

 private:
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }
  static SharedParameter parameter(nanofsdp::Shape shape) {
    return std::make_shared<nn::Parameter>(shape, nn::Init::uniform(1));
  }
  Tensor times(nn::Tape& tape, Tensor x) const {
    const Tensor y = tape.allocate(x.shape());
    const Tensor w = weight_->data;
    for (std::int64_t i = 0; i < x.numel(); ++i) y.f32()[i] = x.f32()[i] * w.f32()[i % w.numel()];
    return y;
  }

  SharedParameter weight_;
};

/// @param by_hand whether it is for the reference
inline std::unique_ptr<Counted> make_leaf(const Node& node, int width, Ties& ties, bool by_hand) {
  switch (node.kind) {
    case Kind::dropout:
      if (by_hand) return std::make_unique<PlainDropout>();
      return std::make_unique<Dropout>();
    case Kind::gelu:
      return std::make_unique<Gelu>();
    case Kind::linear:
      return std::make_unique<Linear>(node, width, ties);
    case Kind::layer_norm:
      return std::make_unique<LayerNorm>(node, width, ties);
    case Kind::affine:
      return std::make_unique<Affine>(node, width, ties);
    case Kind::shift:
      return std::make_unique<Shift>(node, width, ties);
    case Kind::unused:
    case Kind::silent:
      return std::make_unique<Unused>(node, width, ties);
    default:
      return std::make_unique<Identity>();
  }
}

}  // namespace models
