#include "train/options.h"

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

void set_recompute(const gpt::GPT& model, gpt::Recompute what) {
  for (const auto& block : model.blocks()) {
    block->recompute = what == gpt::Recompute::block;
    for (const auto& [name, child] : block->children()) {
      if (name == "mlp") child->recompute = what == gpt::Recompute::selective;
    }
  }
}

fsdp::Options fsdp_options(const TrainerOptions& options, Device device) {
  // Parameters begin at multiples of 16 bytes, which the fastest kernels require.
  const std::size_t element = size_of(fsdp::compute_dtype(options.precision, device));
  // Gradients are summed and not averaged, because each rank has divided its own by the tokens of
  // all ranks.
  return {.strategy = options.strategy,
          .layout = options.layout,
          .precision = options.precision,
          .forward_prefetch = options.forward_prefetch,
          .backward_prefetch = options.backward_prefetch,
          .no_sync = options.no_sync,
          .reduction = comm::ReduceOp::sum,
          .alignment = static_cast<std::int64_t>(16 / element),
          .pool = options.pool,
          .wrap_policy = fsdp::is_a<gpt::Block>};
}

}  // namespace nanofsdp::train
