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
using fsdp::Whole;

using Size = std::int64_t;

Size bytes_of(DType dtype) { return static_cast<Size>(size_of(dtype)); }

void plan_memory(std::span<const UnitLayout> layouts, const Options& options, Device device,
                 Plan& plan) {
  const fsdp::Sharding& sharding = options.sharding();
  const MixedPrecision& precision = options.precision;
  Whole whole, shards, largest;
  int depth = 0;
  for (const UnitLayout& layout : layouts) {
    whole.parameters += layout.padded_numel();
    whole.gradients += layout.trained.padded_numel();
    shards.parameters += layout.shard_numel();
    shards.gradients += layout.trained.shard_numel();
    if (&layout != &layouts.back()) {
      largest = {std::max(largest.parameters, layout.padded_numel()),
                 std::max(largest.gradients, layout.trained.padded_numel())};
      depth = std::max(depth, layout.depth);
    }
    for (const FlatLayout* row : {&layout.trained, &layout.frozen}) {
      for (const ParameterSpec& p : row->parameters()) {
        plan.init_scratch = std::max(plan.init_scratch, bytes_of(DType::float32) * p.numel());
      }
    }
  }
  const Whole root{layouts.back().padded_numel(), layouts.back().trained.padded_numel()};
  const Whole slots = fsdp::pool_slots(options, static_cast<int>(layouts.size()) - 1, depth);
  const Size four = bytes_of(DType::float32);
  const DType computed = fsdp::compute_dtype(precision, device);
  const Size element = bytes_of(computed);
  //! [memory]
  const Whole& stored = options.kept().parameters ? shards : whole;
  plan.of(MemoryClass::parameter_shards) = four * stored.parameters;
  plan.of(MemoryClass::gradient_shards) = four * (sharding.gradients ? shards : whole).gradients;
  plan.of(MemoryClass::optimizer) = 2 * four * (sharding.optimizer ? shards : whole).gradients;
  if (options.borrows_parameters()) {
    plan.of(MemoryClass::unsharded_parameters) =
        element * (slots.parameters * largest.parameters + root.parameters);
  }
  if (sharding.gradients) {
    plan.of(MemoryClass::unsharded_gradients) =
        four * (slots.gradients * largest.gradients + root.gradients);
  }
  //! [memory]
  const auto wire = [&](DType travels, DType kept, Size numel) {
    if (travels != kept) plan.of(MemoryClass::communication) += bytes_of(travels) * numel;
  };
  wire(precision.param_dtype, computed, std::max(largest.parameters, root.parameters));
  wire(precision.reduce_dtype, DType::float32, std::max(largest.gradients, root.gradients));
}

// How often a step gathers and reduces a unit.
struct Times {
  Size gathers = 0;
  Size reductions = 0;
};

Times times(const Options& options, Size micro_steps, bool root) {
  const fsdp::Sharding& s = options.sharding();
  const Size M = micro_steps;
  Times t{.gathers = s.optimizer ? 1 : 0, .reductions = 1};
  if (s.gradients && !options.no_sync) t.reductions = M;
  if (!s.parameters) return t;
  if (s.reshards_after_forward) {
    t.gathers = root ? M : 2 * M;  // the root stays from forward to backward
  } else {
    t.gathers = options.no_sync ? 1 : M;
  }
  return t;
}

void plan_traffic(std::span<const UnitLayout> layouts, const Options& options,
                  const Workload& workload, Plan& plan) {
  const Size F = workload.shard_size, R = workload.replicas;
  if (F * R == 1) return;
  comm::Traffic& t = plan.step;
  const auto gather = [&](const FlatLayout& row, Size times) {
    if (row.parameters().empty()) return;
    t.all_gathers += times;
    t.bytes_sent += times * (F - 1) * row.shard_numel() * bytes_of(options.precision.param_dtype);
  };
  for (const UnitLayout& layout : layouts) {
    const auto [gathers, reductions] =
        times(options, workload.micro_steps, &layout == &layouts.back());
    gather(layout.trained, gathers);
    gather(layout.frozen, options.sharding().parameters ? gathers : 0);  // else they stay fresh
    if (layout.trained.parameters().empty()) continue;
    const Size shard = layout.trained.shard_numel();
    const Size reduced = (F - 1) * shard * bytes_of(options.precision.reduce_dtype);
    if (options.sharding().optimizer) {
      t.reduce_scatters += reductions;
      t.bytes_sent += reductions * reduced;
    } else {
      t.all_reduces += reductions;  // a reduce-scatter and an all-gather
      t.bytes_sent += 2 * reductions * reduced;
    }
    if (!options.sharding().replicates) continue;
    ++t.all_reduces;
    plan.bytes_across += 2 * (R - 1) * shard / R * bytes_of(DType::float32);
  }
  t.bytes_sent += plan.bytes_across;
  t.bytes_received = t.bytes_sent;
}

// Of the largest shard in its group, and of the part of it that is summed across.
Size gloo_bytes(std::span<const UnitLayout> layouts, const Workload& workload,
                const MixedPrecision& precision) {
  Size shard = 0;
  for (const UnitLayout& layout : layouts) {
    shard = std::max(shard, layout.trained.shard_numel());
  }
  return comm::gloo_scratch_bytes(workload.shard_size, shard * bytes_of(precision.reduce_dtype)) +
         comm::gloo_scratch_bytes(workload.replicas,
                                  shard * bytes_of(DType::float32) / workload.replicas);
}

}  // namespace

std::vector<UnitLayout> layouts_of(std::span<const fsdp::Unit> units) {
  std::vector<UnitLayout> layouts;
  for (const fsdp::Unit& unit : units) {
    UnitLayout layout{.trained = FlatLayout({}, 1), .depth = unit.depth()};
    for (const fsdp::ShardedParameters& row : unit.rows()) {
      (row.trains() ? layout.trained : layout.frozen) = row.layout();
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

std::vector<UnitLayout> lay_out(std::span<const std::vector<ParameterSpec>> units,
                                const Options& options, const Workload& workload) {
  std::vector<UnitLayout> layouts;
  for (const auto& unit : units) {
    layouts.push_back({.trained = FlatLayout(unit, workload.shard_size,
                                             options.alignment_on(workload.replicas))});
  }
  return layouts;
}

Plan plan(std::span<const UnitLayout> layouts, const Options& options, const Workload& workload) {
  Options settled = options;
  if (workload.shard_size * workload.replicas == 1)
    settled.strategy = fsdp::ShardingStrategy::no_shard;
  Plan plan;
  plan_memory(layouts, settled, workload.device, plan);
  plan_traffic(layouts, settled, workload, plan);
  return plan;
}

Plan plan_training(std::span<const UnitLayout> layouts, const Options& options,
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
