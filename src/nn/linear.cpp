#include "nn/linear.h"

#include "ops/matmul.h"

namespace nanofsdp::nn {
Linear::Linear(const Options& options)
    : weight_(std::make_shared<Parameter>(Shape{options.out, options.in}, Init::normal(0.02))) {
  add("weight", weight_);
  if (!options.bias) return;
  bias_ = std::make_shared<Parameter>(Shape{options.out}, Init::zeros());
  add("bias", bias_);
}

Linear::Linear(std::shared_ptr<Parameter> tied_weight) : weight_(std::move(tied_weight)) {
  add("weight", weight_);
}

Tensor Linear::do_forward(Tape& tape, Tensor x) {
  const Tensor y = tape.allocate(x.shape().with(x.shape().rank() - 1, weight_->shape[0]));
  ops::matmul(tape.stream(), ops::MatmulForward{.x = x.rows(),
                                                .weight = weight_->data,
                                                .bias = bias_ ? bias_->data : Tensor(),
                                                .y = y.rows()});
  tape.save({x});
  return y;
}

Tensor Linear::do_backward(Tape& tape, Tensor dy) {
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

}  // namespace nanofsdp::nn
