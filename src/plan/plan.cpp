#include "plan/plan.h"

#include <algorithm>

#include "comm/gloo.h"
#include "fsdp/grad_norm.h"

namespace nanofsdp::plan {
namespace {

using fsdp::FlatLayout;
using fsdp::MixedPrecision;
using fsdp::Options;
using fsdp::ParameterSpec;
using fsdp::ShardingStrategy;

using Size = std::int64_t;

Size bytes_of(DType dtype) { return static_cast<Size>(size_of(dtype)); }

void plan_memory(std::span<const FlatLayout> layouts, const Options& options, Device device,
                 Plan& plan) {
  const ShardingStrategy& strategy = options.strategy;
  const MixedPrecision& precision = options.precision;
  Size whole = 0, shards = 0, largest = 0;
  for (const FlatLayout& layout : layouts) {
    whole += layout.padded_numel();
    shards += layout.shard_numel();
    if (&layout != &layouts.back()) largest = std::max(largest, layout.padded_numel());
    for (const ParameterSpec& p : layout.parameters()) {
      plan.init_scratch = std::max(plan.init_scratch, bytes_of(DType::float32) * p.numel());
    }
  }
  const Size root = layouts.back().padded_numel();
  const fsdp::PoolSlots slots = fsdp::pool_slots(options, static_cast<int>(layouts.size()) - 1);
  const Size four = bytes_of(DType::float32);
  const bool borrows = fsdp::borrows_parameters(strategy, precision);
  const bool stores_shard = borrows ? strategy.shard_optimizer : strategy.shard_parameters;
  const DType computed = fsdp::compute_dtype(precision, device);
  const Size element = bytes_of(computed);
  //! [memory]
  plan.of(MemoryClass::parameter_shards) = four * (stores_shard ? shards : whole);
  plan.of(MemoryClass::gradient_shards) = four * (strategy.shard_gradients ? shards : whole);
  plan.of(MemoryClass::optimizer) = 2 * four * (strategy.shard_optimizer ? shards : whole);
  if (borrows) {
    plan.of(MemoryClass::unsharded_parameters) = element * (slots.parameters * largest + root);
  }
  if (strategy.shard_gradients) {
    plan.of(MemoryClass::unsharded_gradients) = four * (slots.gradients * largest + root);
  }
  //! [memory]
  const auto wire = [&](DType travels, DType kept) {
    if (travels == kept) return;
    plan.of(MemoryClass::communication) += bytes_of(travels) * std::max(largest, root);
  };
  wire(precision.param_dtype, computed);
  wire(precision.reduce_dtype, DType::float32);
}

// How often a step gathers and reduces a unit.
struct Times {
  Size gathers = 0;
  Size reductions = 0;
};

Times times(const Options& options, Size micro_steps, bool root) {
  const ShardingStrategy& s = options.strategy;
  const Size M = micro_steps;
  Times t{.gathers = s.shard_optimizer ? 1 : 0, .reductions = 1};
  if (s.shard_gradients && !options.no_sync) t.reductions = M;
  if (!s.shard_parameters) return t;
  if (s.reshard_after_forward) {
    t.gathers = root ? M : 2 * M;  // the root stays from forward to backward
  } else {
    t.gathers = options.no_sync ? 1 : M;
  }
  return t;
}

void plan_traffic(std::span<const FlatLayout> layouts, const Options& options,
                  const Workload& workload, Plan& plan) {
  const Size F = workload.shard_size, R = workload.replicas;
  if (F * R == 1) return;
  comm::Traffic& t = plan.step;
  for (const FlatLayout& layout : layouts) {
    const auto [gathers, reductions] =
        times(options, workload.micro_steps, &layout == &layouts.back());
    const Size chunk = (F - 1) * layout.shard_numel();
    const Size reduced = chunk * bytes_of(options.precision.reduce_dtype);
    t.all_gathers += gathers;
    t.bytes_sent += gathers * chunk * bytes_of(options.precision.param_dtype);
    if (options.strategy.shard_optimizer) {
      t.reduce_scatters += reductions;
      t.bytes_sent += reductions * reduced;
    } else {
      t.all_reduces += reductions;  // a reduce-scatter and an all-gather
      t.bytes_sent += 2 * reductions * reduced;
    }
    if (!options.strategy.replicate_across_groups) continue;
    ++t.all_reduces;
    plan.bytes_across += 2 * (R - 1) * layout.shard_numel() / R * bytes_of(DType::float32);
  }
  t.bytes_sent += plan.bytes_across;
  t.bytes_received = t.bytes_sent;
}

// Of the largest shard in its group, and of the part of it that is summed across.
Size gloo_bytes(std::span<const FlatLayout> layouts, const Workload& workload,
                const MixedPrecision& precision) {
  Size shard = 0;
  for (const FlatLayout& layout : layouts) shard = std::max(shard, layout.shard_numel());
  return comm::gloo_scratch_bytes(workload.shard_size, shard * bytes_of(precision.reduce_dtype)) +
         comm::gloo_scratch_bytes(workload.replicas,
                                  shard * bytes_of(DType::float32) / workload.replicas);
}

}  // namespace

std::vector<FlatLayout> layouts_of(std::span<const fsdp::Unit> units) {
  std::vector<FlatLayout> layouts;
  for (const fsdp::Unit& unit : units) layouts.push_back(unit.flat().layout());
  return layouts;
}

std::vector<FlatLayout> lay_out(std::span<const std::vector<ParameterSpec>> units,
                                const Options& options, const Workload& workload) {
  std::vector<FlatLayout> layouts;
  for (const auto& unit : units) {
    layouts.emplace_back(unit, workload.shard_size, fsdp::alignment_of(options, workload.replicas));
  }
  return layouts;
}

Plan plan(std::span<const FlatLayout> layouts, const Options& options, const Workload& workload) {
  Options settled = options;
  if (workload.shard_size * workload.replicas == 1) settled.strategy = fsdp::kNoShard;
  Plan plan;
  plan_memory(layouts, settled, workload.device, plan);
  plan_traffic(layouts, settled, workload, plan);
  return plan;
}

Plan plan_training(std::span<const FlatLayout> layouts, const Options& options,
                   const Workload& workload, bool over_gloo, std::int64_t others) {
  Plan plan = nanofsdp::plan::plan(layouts, options, workload);
  const Size ranks = Size{workload.shard_size} * workload.replicas;
  plan.of(MemoryClass::communication) += fsdp::GradNorm::bytes(ranks) + others;
  if (over_gloo) {
    plan.of(MemoryClass::communication) += gloo_bytes(layouts, workload, options.precision);
  }
  return plan;
}

}  // namespace nanofsdp::plan
