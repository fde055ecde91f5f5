#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"

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
  LayerNorm(std::int64_t n, bool bias);

 private:
  Tensor do_forward(Tape& tape, Tensor x) override;
  Tensor do_backward(Tape& tape, Tensor dy) override;

  std::shared_ptr<Parameter> weight_;
  std::shared_ptr<Parameter> bias_;  // null without bias
};

}  // namespace nanofsdp::nn
