#include "nn/loss.h"

#include "ops/cross_entropy.h"

namespace nanofsdp::nn {

void cross_entropy(Tape& tape, Tensor logits, Tensor targets, Tensor total) {
  const std::int64_t rows = targets.numel();
  const Tensor flat = logits.rows(), target = targets.view({rows});
  const Tensor loss = tape.allocate({rows}), lse = tape.allocate({rows});
  ops::cross_entropy(
      tape.stream(),
      ops::CrossEntropyForward{
          .logits = flat, .target = target, .loss = loss, .lse = lse, .total = total});
  tape.save({logits, target, lse});
}

Tensor cross_entropy_backward(Tape& tape, float scale) {
  const auto [logits, target, lse] = tape.restore<3>();
  ops::cross_entropy(tape.stream(),
                     ops::CrossEntropyBackward{
                         .logits = logits.rows(), .target = target, .lse = lse, .scale = scale});
  return logits;
}

}  // namespace nanofsdp::nn
