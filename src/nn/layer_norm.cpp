#include "nn/layer_norm.h"

#include "ops/layer_norm.h"

namespace nanofsdp::nn {

LayerNorm::LayerNorm(std::int64_t n, bool bias)
    : weight_(std::make_shared<Parameter>(Shape{n}, Init::ones())) {
  add("weight", weight_);
  if (!bias) return;
  bias_ = std::make_shared<Parameter>(Shape{n}, Init::zeros());
  add("bias", bias_);
}

Tensor LayerNorm::do_forward(Tape& tape, Tensor x) {
  const std::int64_t n = weight_->shape[0];
  const Tensor y = tape.allocate(x.shape());
  const Tensor mean = tape.allocate({x.numel() / n}, DType::float32);
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

Tensor LayerNorm::do_backward(Tape& tape, Tensor dy) {
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

}  // namespace nanofsdp::nn
