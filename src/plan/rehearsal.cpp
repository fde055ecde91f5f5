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
  const auto tokens = static_cast<std::size_t>(2 * rows * work_.tokens);
  batch_ = Buffer(context.ledger, MemoryClass::activations, tokens * size_of(DType::int32),
                  context.device);
  const auto sums = static_cast<std::size_t>(work_.sums) * static_cast<std::size_t>(mesh.size());
  sums_ = Buffer(context.ledger, MemoryClass::communication, sums * size_of(DType::float64),
                 context.device);
  initialise();
}

// As deferred_init, which draws each parameter whole, one after the other.
void Rehearsal::initialise() {
  std::int64_t largest = 0;
  for (fsdp::ShardedParameters* row : sharded_.rows()) {
    for (const nn::Parameter* p : row->parameters()) largest = std::max(largest, p->shape.numel());
    row->written();
  }
  const Buffer drawn(context_.ledger, MemoryClass::unsharded_parameters,
                     static_cast<std::size_t>(largest) * size_of(DType::float32), context_.device);
}

void Rehearsal::evaluate() {
  if (work_.evaluation_rows == 0) return;
  const Tensor tokens = batch_.tensor({work_.evaluation_rows, work_.tokens}, DType::int32);
  tape_.begin(/*training=*/false);
  nn::cross_entropy(tape_, sharded_.forward(tape_, tokens), tokens, {});
  tape_.end();
}

void Rehearsal::step() {
  sharded_.zero_grad();
  for (std::size_t m = 0; m < work_.rows.size(); ++m) {
    micro_step(work_.rows[m], m + 1 == work_.rows.size());
  }
  const std::size_t span = context_.tracer.begin(*context_.compute, Lane::compute, "optimizer");
  norm_.compute(sharded_.units(), 1.0);
  optimizer_.step(1e-3, norm_.coefficient());
  context_.tracer.end(*context_.compute, span);
  context_.compute->synchronize();
}

void Rehearsal::micro_step(std::int64_t rows, bool last) {
  const Tensor tokens = batch_.tensor({rows, work_.tokens}, DType::int32);
  tape_.begin(/*training=*/true);
  nn::cross_entropy(tape_, sharded_.forward(tape_, tokens), tokens, {});
  sharded_.backward(tape_, nn::cross_entropy_backward(tape_, 1.0F), last);
}

}  // namespace nanofsdp::plan
