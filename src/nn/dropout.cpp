#include "nn/dropout.h"

#include "ops/elementwise.h"

namespace nanofsdp::nn {

Tensor Dropout::apply(Tape& tape, Tensor x, DropoutKey (Tape::*mask)()) {
  if (p_ == 0 || !tape.training()) return x;
  const Tensor y = tape.allocate(x.shape());
  ops::dropout(tape.stream(), {.x = x, .y = y, .p = p_, .key = (tape.*mask)()});
  return y;
}

}  // namespace nanofsdp::nn
