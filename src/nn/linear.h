#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"

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
  explicit Linear(const Options& options);

  /// Makes a layer without bias that shares its weight with another module (a tied weight).
  explicit Linear(std::shared_ptr<Parameter> tied_weight);

 private:
  Tensor do_forward(Tape& tape, Tensor x) override;
  Tensor do_backward(Tape& tape, Tensor dy) override;

  std::shared_ptr<Parameter> weight_;
  std::shared_ptr<Parameter> bias_;  // null without bias
};

}  // namespace nanofsdp::nn
