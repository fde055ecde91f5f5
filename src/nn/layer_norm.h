#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"
#include "ops/layer_norm.h"

namespace nanofsdp::nn {

/// @file
/// @brief Layer normalisation as a module, with its weight and bias.

/// Normalises the last dimension, then scales and shifts it; weight [n], bias [n] or none
/// (nanoGPT's LayerNorm). Keeps x, and the mean and reciprocal deviation of each row.
class LayerNorm final : public Module {
 public:
  /// Forward takes [..., n] and gives the same shape.
  /// @param n elements that are normalised together; another last dimension is a ShapeError
  /// @param bias whether there is one
  LayerNorm(std::int64_t n, bool bias)
      : weight_(add("weight", std::make_shared<Parameter>(Shape{n}, Init::ones()))) {
    if (bias) bias_ = add("bias", std::make_shared<Parameter>(Shape{n}, Init::zeros()));
  }

 private:
  Tensor do_forward(Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    const Tensor mean = tape.allocate({x.rows().dim(0)}, DType::float32);
    const Tensor rstd = tape.allocate(mean.shape(), mean.dtype());
    ops::layer_norm(tape.stream(), ops::LayerNormForward{.x = x.rows(),
                                                         .weight = weight_->data,
                                                         .bias = bias_ ? bias_->data : Tensor(),
                                                         .y = y.rows(),
                                                         .mean = mean,
                                                         .rstd = rstd});
    tape.save({x, mean, rstd});
    return y;
  }

  Tensor do_backward(Tape& tape, Tensor dy) override {
    const auto [x, mean, rstd] = tape.restore<3>();
    const Tensor dx = tape.allocate(x.shape()), dbias = bias_ ? bias_->grad_to_add_to() : Tensor();
    ops::layer_norm(tape.stream(), ops::LayerNormBackward{.dy = dy.rows(),
                                                          .x = x.rows(),
                                                          .weight = weight_->data,
                                                          .mean = mean,
                                                          .rstd = rstd,
                                                          .dx = dx.rows(),
                                                          .dweight = weight_->grad_to_add_to(),
                                                          .dbias = dbias});
    return dx;
  }

  std::shared_ptr<Parameter> weight_, bias_;  // without a bias, bias_ is null
};

}  // namespace nanofsdp::nn
