#include "nn/loss.h"

#include "ops/cross_entropy.h"
#include "ops/operands.h"

namespace nanofsdp::nn {
namespace {

ops::CrossEntropyForward operands(Tape& tape, Tensor logits, Tensor targets, Tensor total) {
  const Tensor flat = logits.rows();
  const Shape leading(logits.shape().dims().first(logits.shape().rank() - 1));
  ops::Require(tape.stream())("cross_entropy: targets", targets, leading, DType::int32);
  const Shape rows{targets.numel()};
  return {flat, targets.view(rows), tape.allocate(rows, DType::float32),
          tape.allocate(rows, DType::float32), total};
}

}  // namespace

void cross_entropy(Tape& tape, Tensor logits, Tensor targets, Tensor total) {
  const ops::CrossEntropyForward a = operands(tape, logits, targets, total);
  ops::cross_entropy(tape.stream(), a);
  tape.save({logits, a.target, a.lse});
}

Tensor cross_entropy_backward(Tape& tape, float scale) {
  const auto [logits, target, lse] = tape.restore<3>();
  ops::cross_entropy(tape.stream(), ops::CrossEntropyBackward{logits.rows(), target, lse, scale});
  return logits;
}

Tensor cross_entropy(Tape& tape, Tensor logits, Tensor targets, Tensor total, float scale) {
  ops::cross_entropy(tape.stream(),
                     ops::CrossEntropy{operands(tape, logits, targets, total), scale});
  return logits;
}

}  // namespace nanofsdp::nn
