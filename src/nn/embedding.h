#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"

namespace nanofsdp::nn {

/// Rows of a table [count, width], looked up by int32 index (PyTorch's nn.Embedding). The input has
/// no gradient, so backward returns an empty tensor.
class Embedding final : public Module {
 public:
  Embedding(std::int64_t count, std::int64_t width, Init init);

  const std::shared_ptr<Parameter>& weight() const { return weight_; }

 private:
  Tensor do_forward(Tape& tape, Tensor index) override;
  Tensor do_backward(Tape& tape, Tensor dy) override;

  std::shared_ptr<Parameter> weight_;
};

}  // namespace nanofsdp::nn
