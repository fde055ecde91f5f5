#include "plan/rehearsal.h"

#include <algorithm>

#include "nn/loss.h"

namespace nanofsdp::plan {

Rehearsal::Rehearsal(Context& context, comm::Mesh& mesh, nn::Module& model,
                     const fsdp::Options& options, const Work& work)
    : context_(context),
      work_(work),
      sharded_(context, model, mesh, options),
      tape_(context),
      norm_(context, mesh),
      optimizer_(context, sharded_.units(), {}) {
  const std::int64_t rows = std::max(work_.batch_rows, std::ranges::max(work_.rows));
  batch_ = context.buffer(MemoryClass::activations, 2 * rows * work_.tokens, DType::int32);
  sums_ = context.buffer(MemoryClass::communication, work_.sums * mesh.size(), DType::float64);
  // As deferred_init, which draws each parameter whole, one after the other.
  std::int64_t largest = 0;
  for (fsdp::ShardedParameters* row : sharded_.rows()) {
    for (const nn::Parameter* p : row->parameters()) largest = std::max(largest, p->shape.numel());
    row->written();
  }
  context.buffer(MemoryClass::unsharded_parameters, largest);
}

// The gradient of the logits too: an evaluation needs as much memory without.
Tensor Rehearsal::forward(std::int64_t rows, bool training) {
  const Tensor tokens = batch_.tensor({rows, work_.tokens}, DType::int32);
  tape_.begin(training);
  return nn::cross_entropy(tape_, sharded_.forward(tape_, tokens), tokens, {}, 1.0F);
}

void Rehearsal::evaluate() {
  if (work_.evaluation_rows == 0) return;
  forward(work_.evaluation_rows, /*training=*/false);
  tape_.end();
}

void Rehearsal::step() {
  sharded_.zero_grad();
  for (std::size_t m = 0; m < work_.rows.size(); ++m) {
    const bool last = m + 1 == work_.rows.size();
    sharded_.backward(tape_, forward(work_.rows[m], /*training=*/true), last);
  }
  const std::size_t span = context_.tracer.begin(*context_.compute, Lane::compute, "optimizer");
  norm_.compute(sharded_.units(), 1.0);
  optimizer_.step(1e-3, norm_.coefficient());
  context_.tracer.end(*context_.compute, span);
  context_.compute->synchronize();
}

}  // namespace nanofsdp::plan
