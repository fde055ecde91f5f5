#include "nn/embedding.h"

#include "ops/embedding.h"

namespace nanofsdp::nn {

Embedding::Embedding(std::int64_t count, std::int64_t width, Init init)
    : weight_(std::make_shared<Parameter>(Shape{count, width}, init)) {
  add("weight", weight_);
}

Tensor Embedding::do_forward(Tape& tape, Tensor index) {
  const Tensor flat = index.view({index.numel()});
  const Tensor y = tape.allocate(index.shape().with(index.shape().rank(), weight_->shape[1]));
  ops::embedding(tape.stream(),
                 ops::EmbeddingForward{.index = flat, .weight = weight_->data, .y = y.rows()});
  tape.save({flat});
  return y;
}

Tensor Embedding::do_backward(Tape& tape, Tensor dy) {
  const auto [index] = tape.restore<1>();
  const Tensor dweight = weight_->grad_to_add_to();
  if (dweight.empty()) return {};
  ops::embedding(tape.stream(),
                 ops::EmbeddingBackward{.index = index, .dy = dy.rows(), .dweight = dweight});
  return {};
}

}  // namespace nanofsdp::nn
