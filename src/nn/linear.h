#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"
#include "ops/matmul.h"

namespace nanofsdp::nn {

/// @file
/// @brief A dense layer as a module: one matrix product, and a bias.

/// y = x weight^T + bias over the last dimension; weight [out, in], bias [out] or none
/// (PyTorch's nn.Linear). Weights start as N(0, 0.02), biases at zero (GPT-2). Keeps x for
/// backward.
class Linear final : public Module {
 public:
  /// The sizes of a layer: `nn::Linear fc{{.in = 128, .out = 512}};`
  struct Options {
    std::int64_t in = 0;   ///< elements of a row of x
    std::int64_t out = 0;  ///< elements of a row of y
    bool bias = true;      ///< whether y has a bias
  };
  /// Forward takes [..., in] and returns [..., out]. Another last dimension is a ShapeError.
  explicit Linear(const Options& options)
      : Linear(std::make_shared<Parameter>(Shape{options.out, options.in}, Init::normal(0.02))) {
    if (!options.bias) return;
    bias_ = add("bias", std::make_shared<Parameter>(Shape{options.out}, Init::zeros()));
  }

  /// Makes a layer without bias that shares its weight with another module (a tied weight).
  explicit Linear(std::shared_ptr<Parameter> tied_weight)
      : weight_(add("weight", std::move(tied_weight))) {}

 private:
  Tensor do_forward(Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape().with(x.shape().rank() - 1, weight_->shape[0]));
    ops::matmul(tape.stream(), ops::MatmulForward{.x = x.rows(),
                                                  .weight = weight_->data,
                                                  .bias = bias_ ? bias_->data : Tensor(),
                                                  .y = y.rows()});
    tape.save({x});
    return y;
  }

  Tensor do_backward(Tape& tape, Tensor dy) override {
    const auto [x] = tape.restore<1>();
    const Tensor dx = tape.allocate(x.shape()), dbias = bias_ ? bias_->grad_to_add_to() : Tensor();
    ops::matmul(tape.stream(), ops::MatmulBackward{.dy = dy.rows(),
                                                   .x = x.rows(),
                                                   .weight = weight_->data,
                                                   .dx = dx.rows(),
                                                   .dweight = weight_->grad_to_add_to(),
                                                   .dbias = dbias});
    return dx;
  }

  std::shared_ptr<Parameter> weight_, bias_;  // without a bias, bias_ is null
};

}  // namespace nanofsdp::nn
