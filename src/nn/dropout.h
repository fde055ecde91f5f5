#pragma once

#include "nn/module.h"

namespace nanofsdp::nn {

/// @file
/// @brief Dropout as a module. Its mask is not stored.

/// Inverted dropout (PyTorch's nn.Dropout): the identity outside training or where p = 0. The mask
/// is a function of the key, so backward draws it again instead of keeping it.
class Dropout final : public Module {
 public:
  /// @param p probability of dropping an element, in [0, 1)
  /// @param site number of this place in the model
  Dropout(float p, int site) : p_(p), site_(site) {}

 private:
  Tensor do_forward(Tape& tape, Tensor x) override { return apply(tape, x); }
  Tensor do_backward(Tape& tape, Tensor dy) override { return apply(tape, dy); }
  Tensor apply(Tape& tape, Tensor x);

  float p_;
  int site_;
};

}  // namespace nanofsdp::nn
