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
      optimizer_(context, sharded_.units(), {}) {
  const std::int64_t rows = std::max(work_.batch_rows, std::ranges::max(work_.rows));
  batch_ = context.buffer(MemoryClass::activations, 2 * rows * work_.tokens, DType::int32);
  sums_ = context.buffer(MemoryClass::communication, work_.sums * mesh.size(), DType::float64);
  // deferred_init draws one whole parameter at a time.
  std::int64_t largest = 0;
  for (fsdp::ShardedParameters* row : sharded_.rows()) {
    for (const nn::Parameter* p : row->parameters()) largest = std::max(largest, p->shape.numel());
    row->written();
  }
  if (work_.draws) context.buffer(MemoryClass::activations, largest);
  for (int i = 1; i <= work_.unsharded_units && i < std::ssize(sharded_.units()); ++i)
    sharded_.units().rbegin()[i].reshard_after_forward = false;
}

void Rehearsal::step() {
  sharded_.zero_grad();
  for (std::size_t m = 0; m < work_.rows.size(); ++m) {
    const Tensor tokens = batch_.tensor({work_.rows[m], work_.tokens}, DType::int32);
    tape_.begin(/*training=*/true);
    const Tensor logits = sharded_.forward(tape_, tokens);
    const bool last = m + 1 == work_.rows.size();
    sharded_.backward(tape_, nn::cross_entropy(tape_, logits, tokens, {}, 1.0F), last);
  }
  const std::size_t span = context_.tracer.begin(*context_.compute, Lane::compute, "optimizer");
  optimizer_.step(1e-3, sharded_.clip(1.0));
  context_.tracer.end(*context_.compute, span);
  context_.compute->synchronize();
}

}  // namespace nanofsdp::plan
