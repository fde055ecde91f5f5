#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"

namespace nanofsdp::nn {

/// y = x weight^T + bias over the last dimension; weight [out, in], bias [out] or none
/// (PyTorch's nn.Linear). Weights start as N(0, 0.02), biases at zero (GPT-2). Keeps x for
/// backward.
class Linear final : public Module {
 public:
  struct Options {
    std::int64_t in = 0;
    std::int64_t out = 0;
    bool bias = true;
  };
  explicit Linear(const Options& options);

  /// A layer without bias whose weight is another module's too (a tied weight).
  explicit Linear(std::shared_ptr<Parameter> tied_weight);

 private:
  Tensor do_forward(Tape& tape, Tensor x) override;
  Tensor do_backward(Tape& tape, Tensor dy) override;

  std::shared_ptr<Parameter> weight_;
  std::shared_ptr<Parameter> bias_;  // null without bias
};

}  // namespace nanofsdp::nn
