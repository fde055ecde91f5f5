#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "plan/transformer.h"

/// @file
/// @brief Plans of language models on GPUs, for lesson 24.

namespace lesson {

using namespace nanofsdp;

/// Tokens of a row. Attention takes hardly any time for rows this short.
inline constexpr std::int64_t kRow = 128;

/// A training in bfloat16. Every block is a unit.
struct Training {
  std::string_view model = "llama-3-8b";
  int ranks = 64;
  std::int64_t tokens = 2048;  ///< a GPU, in a micro-batch
  int micro_batches = 1;
  fsdp::ShardingStrategy strategy = fsdp::ShardingStrategy::full_shard;
};

//! [plan]
inline plan::Plan plan_of(const plan::Machine& machine, const Training& training) {
  plan::Outline model(plan::transformer(*plan::find_transformer(training.model), {}));
  const bool hybrid = training.strategy == fsdp::ShardingStrategy::hybrid_shard;
  plan::Run run{
      .ranks = training.ranks,
      .shard_size = hybrid ? 8 : 0,
      .device = Device::simulated_cuda,
      .options = {.strategy = training.strategy,
                  .precision = {DType::bfloat16, DType::bfloat16},
                  .wrap_policy = plan::is_block},
      .work = {.rows = std::vector<std::int64_t>(training.micro_batches, training.tokens / kRow),
               .tokens = kRow}};
  return plan::plan(model, run, &machine);
}
//! [plan]

/// Seconds in which computation waits for a collective.
inline double exposed(const plan::Plan& plan) {
  return plan.time->exposed[1] + plan.time->exposed[2];
}

/// Seconds of the forward of block 1, which has a block before it and one after it.
inline double forward_seconds(const plan::Plan& plan) {
  const auto span = std::ranges::find(plan.spans, "forward layers.1", &Span::name);
  return span->end - span->begin;
}

}  // namespace lesson
