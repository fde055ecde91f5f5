#include "train/options.h"

#include <cmath>
#include <numbers>

#include "fsdp/wrap.h"

namespace nanofsdp::train {

gpt::GPTConfig config_of(const TrainerOptions& options, std::int64_t vocab_size) {
  return {.block_size = options.block_size,
          .vocab_size = vocab_size,
          .n_layer = options.n_layer,
          .n_head = options.n_head,
          .n_embd = options.n_embd,
          .dropout = static_cast<float>(options.dropout),
          .bias = options.bias};
}

double learning_rate_at(const TrainerOptions& o, std::int64_t it) {
  if (!o.decay_lr) return o.learning_rate;
  const auto step = static_cast<double>(it);
  const auto warmup = static_cast<double>(o.warmup_iters);
  if (it < o.warmup_iters) return o.learning_rate * (step + 1) / (warmup + 1);
  if (it > o.lr_decay_iters) return o.min_lr;
  const double ratio = (step - warmup) / (static_cast<double>(o.lr_decay_iters) - warmup);
  return o.min_lr + 0.5 * (1 + std::cos(std::numbers::pi * ratio)) * (o.learning_rate - o.min_lr);
}

void set_recompute(const gpt::GPT& model, gpt::Recompute what) {
  for (const auto& block : model.blocks()) {
    block->recompute = what == gpt::Recompute::block;
    for (const auto& [name, child] : block->children())
      if (name == "mlp") child->recompute = what == gpt::Recompute::selective;
  }
}

fsdp::Options fsdp_options(const TrainerOptions& options, Device device) {
  fsdp::Options sharding = options;
  // Parameters begin at multiples of 16 bytes, which the fastest kernels require.
  const std::size_t element = size_of(fsdp::compute_dtype(options.precision, device));
  sharding.alignment = static_cast<std::int64_t>(16 / element);
  // Gradients are summed and not averaged, because each rank has divided its own by the tokens of
  // all ranks.
  sharding.reduction = comm::ReduceOp::sum;
  sharding.wrap_policy = fsdp::is_a<gpt::Block>;
  return sharding;
}

}  // namespace nanofsdp::train
