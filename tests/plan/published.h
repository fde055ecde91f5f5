#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/machine.h"
#include "plan/plan.h"
#include "plan/transformer.h"

namespace nanofsdp::plan {

/// @file
/// @brief Training steps that others have published. lessons/plan.md gives the sources, and says
/// which numbers are not published.

/// One published step.
struct Published {
  const char* source;
  const char* model;
  const char* machine;
  int ranks;
  std::int64_t rows, tokens;  ///< rows of a micro-batch on each GPU; tokens of a row
  Practice how{};
  double tokens_per_s = 0;  ///< GiB tokens/s of each GPU; 0: not published
  double gib = 0;           ///< GiB of each GPU; 0: not published
  bool fitted = false;      ///< whether the machine's constants are fitted to it
  double network = 50e9;    ///< bytes/s of each GPU between nodes
  DType reduced = DType::bfloat16;
  fsdp::ShardingStrategy strategy = fsdp::ShardingStrategy::full_shard;
  int shard_size = 0;
  std::int64_t micro_steps = 1;
};

inline const std::vector<Published>& published() {
  using enum Recompute;
  using enum fsdp::ShardingStrategy;
  constexpr DType f32 = DType::float32;
  const Practice eager_op{.recompute = selective}, compiled{.compiled = true},
      compiled_op{.recompute = selective, .compiled = true}, full{.recompute = block},
      norm{.fused_norm = true}, norm_op{.recompute = selective, .fused_norm = true},
      norm_full{.recompute = block, .fused_norm = true},
      norm_half{.recompute = block, .every = 2, .fused_norm = true},
      compiled_half{.recompute = block, .every = 2, .compiled = true},
      third{.recompute = block, .every = 3};
  static const std::vector<Published> kAll = {
      {"torchtitan", "llama-3-8b", "h100-96", 8, 2, 8192, eager_op, 5762, 82.4, true, 50e9, f32},
      {"torchtitan", "llama-3-8b", "h100-96", 128, 2, 8192, eager_op, 5605, 67.0, false, 50e9, f32},
      {"torchtitan", "llama-3-8b", "h100-96", 8, 2, 8192, compiled_op, 6667, 77.0, false, 50e9,
       f32},
      {"torchtitan", "llama-3-8b", "h100-96", 128, 2, 8192, compiled_op, 6514, 62.0, false, 50e9,
       f32},
      {"torchtitan", "llama-3-8b", "a100-80", 64, 1, 8192, norm_op, 2973, 0, true, 25e9, f32},
      {"torchtitan", "llama-3-8b", "a100-80", 64, 1, 8192, norm_half, 2904, 0, false, 25e9, f32},
      {"torchtitan", "llama-3-70b", "a100-80", 64, 1, 8192, norm_full, 331, 0, false, 25e9, f32},
      {"torchtitan", "llama-2-13b", "a100-80", 64, 2, 4096, norm, 2162, 0, false, 25e9, f32},
      {"torchtitan", "llama-2-13b", "a100-80", 64, 2, 4096, norm_op, 1904, 0, false, 25e9, f32},
      {"torchtitan", "llama-2-70b", "a100-80", 64, 1, 4096, norm_op, 355, 0, false, 25e9, f32},
      {"torchtitan", "llama-2-70b", "a100-80", 64, 2, 4096, norm_full, 353, 0, false, 25e9, f32},
      {"torchtitan, out of memory", "llama-2-70b", "a100-80", 64, 2, 4096, norm_op, 0, 0, false,
       25e9, f32},
      {"torchtitan #165", "llama-2-7b", "h100-96", 8, 8, 2048, full, 6200, 31.02, false, 50e9, f32},
      {"torchtitan #165", "llama-2-7b", "h100-96", 8, 8, 2048, eager_op, 6700, 59.41, false, 50e9,
       f32},
      {"torchtitan #165", "llama-2-7b", "h100-96", 8, 8, 2048, compiled, 9200, 90.28, false, 50e9,
       f32},
      {"llm-foundry", "mpt-7b", "h100", 8, 6, 2048, {}, 10643, 0, true},
      {"llm-foundry", "mpt-7b", "h100", 128, 6, 2048, {}, 10475},
      {"llm-foundry", "mpt-7b", "h100", 256, 6, 2048, {}, 10119},
      {"llm-foundry", "mpt-70b", "h100", 128, 8, 2048, full, 1058, 0, true},
      {"llm-foundry", "mpt-70b", "h100", 512, 8, 2048, full, 1007},
      {"llm-foundry", "mpt-30b", "h100", 128, 8, 2048, full, 2199},
      {"llm-foundry", "mpt-13b", "h100", 128, 16, 2048, full, 5080},
      {"llm-foundry", "mpt-1b", "h100", 8, 14, 2048, {}, 45455},
      {"llm-foundry",
       "mpt-7b",
       "a100-80",
       8,
       6,
       2048,
       {},
       4641,
       0,
       true,
       25e9,
       DType::bfloat16,
       full_shard,
       0,
       2},
      {"llm-foundry",
       "mpt-3b",
       "a100-80",
       8,
       10,
       2048,
       {},
       10811,
       0,
       false,
       25e9,
       DType::bfloat16,
       full_shard,
       0,
       2},
      {"llm-foundry", "mpt-70b", "a100-80", 64, 8, 2048, full, 410, 0, true, 25e9, DType::bfloat16,
       full_shard, 0, 4},
      {"fms-fsdp", "llama-2-7b", "a100-80", 128, 2, 4096, compiled, 4550, 0, false, 6.25e9,
       DType::bfloat16, hybrid_shard, 8},
      {"fms-fsdp",
       "llama-2-7b",
       "a100-80",
       128,
       2,
       4096,
       {},
       3650,
       0,
       false,
       6.25e9,
       DType::bfloat16,
       hybrid_shard,
       8},
      {"fms-fsdp", "llama-2-13b", "a100-80", 128, 2, 4096, third, 1800, 0, false, 6.25e9},
      {"fms-fsdp", "llama-2-34b", "a100-80", 128, 2, 4096, full, 700, 0, true, 6.25e9},
      {"fms-fsdp", "llama-2-34b", "h100", 96, 2, 4096, compiled_half, 1830, 0, false, 12.5e9},
      {"fms-fsdp", "llama-2-34b", "h100", 96, 2, 4096, full, 1550, 0, true, 12.5e9},
      {"fms-fsdp", "llama-2-70b", "h100", 96, 2, 4096, full, 800, 0, false, 12.5e9},
      {"nanotron", "nanotron-1.3b", "h100", 8, 1, 4096, norm, 40150, 36.66, false, 50e9, f32,
       no_shard, 0, 32},
      {"nanotron", "nanotron-1.3b", "h100", 16, 1, 4096, norm, 37610, 36.66, false, 50e9, f32,
       no_shard, 0, 16},
      {"nanotron", "nanotron-1.3b", "h100", 32, 1, 4096, norm, 35368, 36.66, false, 50e9, f32,
       no_shard, 0, 8},
      {"nanotron", "nanotron-1.3b", "h100", 64, 1, 4096, norm, 31112, 36.66, false, 50e9, f32,
       no_shard, 0, 4},
      {"nanotron", "nanotron-1.3b", "h100", 128, 1, 4096, norm, 26446, 36.66, false, 50e9, f32,
       no_shard, 0, 2},
      {"nanotron", "nanotron-1.3b", "h100", 256, 1, 4096, norm, 15700, 36.66, false, 50e9, f32,
       no_shard, 0, 1}};
  return kAll;
}

/// The prediction for a published step.
struct Predicted {
  double tokens_per_s = 0, gib = 0;
  bool fits = false;
};

inline Predicted predict(const Published& p) {
  const TransformerShape& shape = *find_transformer(p.model);
  Practice how = p.how;
  how.fused_loss = !shape.is_llama;  // MosaicML's, by default
  Outline model(transformer(shape, how));
  Machine machine = find_machine(p.machine);
  machine.network_bandwidth = p.network;
  const Run run{
      .ranks = p.ranks,
      .shard_size = p.shard_size,
      .device = Device::simulated_cuda,
      .options = {.strategy = p.strategy,
                  .precision = {DType::bfloat16, p.reduced},
                  .no_sync = p.strategy == fsdp::ShardingStrategy::no_shard,
                  .alignment = 8,
                  .wrap_policy = is_block},
      .work = {.rows = std::vector<std::int64_t>(static_cast<std::size_t>(p.micro_steps), p.rows),
               .tokens = p.tokens}};
  const Plan planned = plan(model, run, &machine);
  const auto bytes = static_cast<double>(planned.total_peak);
  return {static_cast<double>(p.rows * p.tokens * p.micro_steps) / planned.time->seconds,
          bytes / (1 << 30), bytes + 2.0 * (1 << 30) <= machine.memory};
}

}  // namespace nanofsdp::plan
