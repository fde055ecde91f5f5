#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"
#include "ops/embedding.h"

namespace nanofsdp::nn {

/// @file
/// @brief A table of vectors as a module: it takes indices and returns rows.

/// Looks up rows of a table [count, width] by int32 index (PyTorch's nn.Embedding). Indices have no
/// gradient, so backward returns an empty tensor.
class Embedding final : public Module {
 public:
  /// Forward takes indices [...] and returns rows [..., width]. On a CPU, an index outside [0,
  /// count) is an Error. On a GPU it stops the kernel (ops/embedding.h).
  /// @param count the number of rows; in a GPT, of tokens  @param width the elements of a row
  /// @param init how the table is initialised. PyTorch's nn.Embedding uses Init::normal(1)
  Embedding(std::int64_t count, std::int64_t width, Init init)
      : weight_(add("weight", std::make_shared<Parameter>(Shape{count, width}, init))) {}

  /// The table, [count, width], for a Linear that shares it (a tied weight).
  const std::shared_ptr<Parameter>& weight() const { return weight_; }

 private:
  Tensor do_forward(Tape& tape, Tensor index) override {
    const Tensor flat = index.view({index.numel()});
    const Tensor y = tape.allocate(index.shape().with(index.shape().rank(), weight_->shape[1]));
    ops::embedding(tape.stream(),
                   ops::EmbeddingForward{.index = flat, .weight = weight_->data, .y = y.rows()});
    tape.save({flat});
    return y;
  }

  Tensor do_backward(Tape& tape, Tensor dy) override {
    const auto [index] = tape.restore<1>();
    if (const Tensor dweight = weight_->grad_to_add_to(); !dweight.empty())
      ops::embedding(tape.stream(),
                     ops::EmbeddingBackward{.index = index, .dy = dy.rows(), .dweight = dweight});
    return {};
  }

  std::shared_ptr<Parameter> weight_;
};

}  // namespace nanofsdp::nn
