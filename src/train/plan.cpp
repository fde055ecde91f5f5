#include "train/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/gloo.h"
#include "fsdp/flat_parameter.h"
#include "fsdp/grad_norm.h"
#include "fsdp/wrap.h"
#include "gpt/gpt.h"
#include "train/loss_meter.h"

namespace nanofsdp::train {
namespace {

// Of the largest shard in its group, and of the part of it that is summed across.
std::int64_t gloo_bytes(std::span<const fsdp::FlatLayout> layouts, const fsdp::Workload& workload,
                        const fsdp::MixedPrecision& precision) {
  std::int64_t shard = 0;
  for (const fsdp::FlatLayout& layout : layouts) shard = std::max(shard, layout.shard_numel());
  const auto bytes = [&](DType dtype) { return shard * static_cast<std::int64_t>(size_of(dtype)); };
  return comm::gloo_scratch_bytes(workload.shard_size, bytes(precision.reduce_dtype)) +
         comm::gloo_scratch_bytes(workload.replicas, bytes(DType::float32) / workload.replicas);
}

}  // namespace

gpt::GPTConfig config_of(const TrainOptions& options, std::int64_t vocab_size) {
  return {.block_size = options.block_size,
          .vocab_size = vocab_size,
          .n_layer = options.n_layer,
          .n_head = options.n_head,
          .n_embd = options.n_embd,
          .dropout = static_cast<float>(options.dropout),
          .bias = options.bias};
}

fsdp::Options fsdp_options(const TrainOptions& options) {
  // Parameters begin at multiples of 16 bytes, which the fastest kernels ask for.
  const std::size_t element = size_of(fsdp::compute_dtype(options.precision, options.device));
  // Summed, not averaged: each rank's are already divided by the tokens of all.
  return {.strategy = options.strategy,
          .precision = options.precision,
          .forward_prefetch = options.forward_prefetch,
          .backward_prefetch = options.backward_prefetch,
          .no_sync = options.no_sync,
          .reduction = comm::ReduceOp::sum,
          .alignment = static_cast<std::int64_t>(16 / element),
          .wrap_policy = [](const nn::Module& module) {
            return dynamic_cast<const gpt::Block*>(&module) != nullptr;
          }};
}

fsdp::Plan plan_training(std::span<const fsdp::FlatLayout> layouts, const TrainOptions& options,
                         const fsdp::Workload& workload) {
  fsdp::Plan plan = fsdp::plan(layouts, fsdp_options(options), workload);
  const std::int64_t ranks = std::int64_t{workload.shard_size} * workload.replicas;
  plan.of(MemoryClass::communication) += fsdp::GradNorm::bytes(ranks) + LossMeter::bytes(ranks, 2);
  if (options.backend == Backend::gloo) {
    plan.of(MemoryClass::communication) += gloo_bytes(layouts, workload, options.precision);
  }
  return plan;
}

UnitShapes gpt_shapes(const gpt::GPTConfig& config) {
  gpt::GPT model(config);
  UnitShapes units;
  for (const fsdp::WrappedModule& unit : fsdp::wrap(model, fsdp_options({}).wrap_policy)) {
    units.push_back(fsdp::specs_of(unit.parameters));
  }
  return units;
}

UnitShapes llama_shapes(const LlamaConfig& c) {
  const std::vector<fsdp::ParameterSpec> block = {
      {"attention_norm.weight", {c.n_embd}},
      {"attention.wq.weight", {c.n_embd, c.n_embd}},
      {"attention.wk.weight", {c.n_kv, c.n_embd}},
      {"attention.wv.weight", {c.n_kv, c.n_embd}},
      {"attention.wo.weight", {c.n_embd, c.n_embd}},
      {"ffn_norm.weight", {c.n_embd}},
      {"feed_forward.w1.weight", {c.n_inner, c.n_embd}},
      {"feed_forward.w3.weight", {c.n_inner, c.n_embd}},
      {"feed_forward.w2.weight", {c.n_embd, c.n_inner}}};
  UnitShapes units(static_cast<std::size_t>(c.n_layer), block);
  units.push_back({{"tok_embeddings.weight", {c.vocab_size, c.n_embd}},
                   {"norm.weight", {c.n_embd}},
                   {"output.weight", {c.vocab_size, c.n_embd}}});
  return units;
}

UnitShapes bare_shapes(std::int64_t numel, std::int64_t unit) {
  UnitShapes units;
  for (; unit > 0 && numel >= unit; numel -= unit) units.push_back({{"unit", {unit}}});
  units.push_back({{"rest", {numel}}});
  return units;
}

UnitShapes merged(UnitShapes units, std::int64_t blocks) {
  UnitShapes result;
  std::int64_t at = 0;
  for (auto& unit : units) {
    const bool root = &unit == &units.back();
    if (root || at++ % blocks == 0) result.emplace_back();
    std::ranges::move(unit, std::back_inserter(result.back()));
  }
  return result;
}

}  // namespace nanofsdp::train
