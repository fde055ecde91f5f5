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
