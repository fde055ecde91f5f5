#pragma once

#include "nn/module.h"
#include "ops/elementwise.h"

namespace nanofsdp::nn {

/// @file
/// @brief Dropout as a module. Its mask is not stored.

/// Inverted dropout (PyTorch's nn.Dropout): the identity outside training or where p = 0. Every
/// call has a mask of its own (Tape::draw_mask), and backward draws it again instead of keeping it.
class Dropout final : public Module {
 public:
  /// @param p probability of dropping an element, in [0, 1)
  explicit Dropout(float p) : p_(p) {}

 private:
  Tensor do_forward(Tape& tape, Tensor x) override { return apply(tape, x, &Tape::draw_mask); }
  Tensor do_backward(Tape& tape, Tensor dy) override { return apply(tape, dy, &Tape::redraw_mask); }
  Tensor apply(Tape& tape, Tensor x, DropoutKey (Tape::*mask)()) const {
    if (p_ == 0 || !tape.training()) return x;
    const Tensor y = tape.allocate(x.shape());
    ops::dropout(tape.stream(), {.x = x, .y = y, .p = p_, .key = (tape.*mask)()});
    return y;
  }

  float p_;
};

}  // namespace nanofsdp::nn
