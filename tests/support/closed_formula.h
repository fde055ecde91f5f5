#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ledger.h"
#include "comm/communicator.h"
#include "fsdp/fully_shard.h"
#include "support/unit_layout.h"

namespace nanofsdp::formula {

/// @file
/// @brief The memory and traffic of a run by closed formulas: the oracle of ledger, counters and
/// plans. It has everything except activations. Padding counts.

/// The ranks as a grid, and the work of one of them in a step.
struct Workload {
  int shard_size = 1;            ///< F: ranks of a shard group
  int replicas = 1;              ///< R: number of groups
  int post_forward_size = 0;     ///< K: ranks of a post-forward group; 0: F
  std::int64_t micro_steps = 1;  ///< M: micro-steps of one rank in an optimizer step
  Device device = Device::cpu;   ///< decides the dtype in which units compute

  /// The shards that a rank stores: one, or one for each replica that updates a part.
  int stored_shards(const fsdp::Options& options) const {
    return options.sharding().splits_update ? replicas : 1;
  }
};

struct Plan {
  /// Bytes that a rank has reserved in each class, once model and optimizer are constructed.
  std::array<std::int64_t, kMemoryClasses.size()> bytes{};
  /// Bytes of the largest parameter: initialisation draws into this scratch and frees it.
  std::int64_t init_scratch = 0;
  /// The traffic of a rank in one optimizer step.
  comm::Traffic step;
  std::int64_t slot_bytes = 0;    ///< bytes of a slot for whole parameters of a unit
  std::int64_t bytes_across = 0;  ///< bytes of them that are sent to other shard groups

  std::int64_t& of(MemoryClass c) { return bytes[static_cast<std::size_t>(c)]; }
  std::int64_t of(MemoryClass c) const { return bytes[static_cast<std::size_t>(c)]; }

  /// Parameters, gradients and optimizer state: the bytes that exist between two steps.
  std::int64_t at_rest() const {
    return of(MemoryClass::parameter_shards) + of(MemoryClass::gradient_shards) +
           of(MemoryClass::optimizer);
  }
};

/// The bytes of a GradNorm: a sum of squares for every rank, the norm, the coefficient.
constexpr std::int64_t norm_bytes(std::int64_t ranks) { return 8 * ranks + 4 + 4; }

using fsdp::Options;
using fsdp::ParameterSpec;

using Size = std::int64_t;

// Elements or bytes: of whole parameters, and of whole gradients.
struct Sizes {
  Size parameters = 0, gradients = 0;
};

inline Size bytes_of(DType dtype) { return static_cast<Size>(size_of(dtype)); }

inline void plan_memory(std::span<const UnitLayout> layouts, const Options& model,
                        const Workload& workload, Plan& plan) {
  const Device device = workload.device;
  const int post_forward_size = workload.post_forward_size % workload.shard_size;
  const Size in_group = workload.stored_shards(model);
  const fsdp::Sharding& sharding = model.sharding();
  const Size four = bytes_of(DType::float32);
  const DType computed = fsdp::compute_dtype(model.precision, device);
  const fsdp::Sharding kept = model.at_rest(DType::float32, device);  // for parameters that train
  // Elements of whole copies, gradients and optimizer state; and bytes of rows that are cast or
  // copied before they are sent.
  Sizes whole, largest, root, wire;
  Size gradients = 0, remembered = 0;
  int depth = 0;
  Size staying = 0;  // units but the root that stay unsharded from forward to backward
  const auto visit = [&](const RowLayout& row, Sizes& unit, const Options& options) {
    const bool half = row.dtype == DType::bfloat16;
    const bool sharded = options.at_rest(row.dtype, device).parameters;
    const Size stored = sharded ? in_group * row.shard_numel : row.whole_numel;
    plan.of(MemoryClass::parameter_shards) += bytes_of(row.dtype) * stored;
    if (options.borrows_parameters(row.dtype, computed)) unit.parameters += row.whole_numel;
    DType travels = options.precision.param_dtype;
    if (half) travels = sharding.optimizer ? DType::bfloat16 : computed;
    if (travels != computed || options.copies()) {
      wire.parameters = std::max(wire.parameters, row.bytes(options, travels));
    }
    for (const ParameterSpec& p : row.parameters) {
      plan.init_scratch = std::max(plan.init_scratch, four * p.numel());
    }
  };
  for (const UnitLayout& layout : layouts) {
    const RowLayout& row = layout.trained;
    const Options options = options_of(layout, model);
    const DType reduced = options.precision.reduce_dtype;
    Sizes of_unit{0, std::max(row.whole_numel, in_group * row.shard_numel)};
    visit(row, of_unit, options);
    for (const RowLayout& frozen : layout.frozen) visit(frozen, of_unit, options);
    whole.parameters += of_unit.parameters;
    gradients += kept.gradients ? in_group * row.shard_numel : row.whole_numel;
    remembered += sharding.optimizer ? row.shard_numel : row.whole_numel;
    if (reduced != DType::float32 || options.copies()) {
      wire.gradients = std::max(wire.gradients, bytes_of(reduced) * row.travels(options));
    }
    if (&layout == &layouts.back()) {
      root = of_unit;
    } else {
      largest.parameters = std::max(largest.parameters, of_unit.parameters);
      largest.gradients = std::max(largest.gradients, of_unit.gradients);
      depth = std::max(depth, layout.depth);
      if (!layout.reshard_after_forward.value_or(sharding.reshards_after_forward)) ++staying;
    }
  }
  const fsdp::SlotCounts slots = fsdp::pool_slots(model, std::ssize(layouts) - 1, depth, staying);
  const Size element = bytes_of(computed);
  plan.of(MemoryClass::gradient_shards) = four * gradients;
  plan.of(MemoryClass::optimizer) = 2 * four * remembered;
  plan.slot_bytes = element * largest.parameters;
  plan.of(MemoryClass::unsharded_parameters) =
      element * (slots.parameters * largest.parameters + root.parameters);
  if (post_forward_size > 0) {
    plan.of(MemoryClass::unsharded_parameters) +=
        element * (whole.parameters - root.parameters) / post_forward_size;
  }
  if (kept.gradients) {
    plan.of(MemoryClass::unsharded_gradients) =
        four * (slots.gradients * largest.gradients + root.gradients);
  }
  plan.of(MemoryClass::communication) = wire.parameters + wire.gradients;
}

// How often a step gathers and reduces a unit.
struct Times {
  Size gathers = 0;
  Size reductions = 0;
};

inline Times times(const Options& options, Size micro_steps, bool reshards) {
  const fsdp::Sharding& s = options.sharding();
  const Size M = micro_steps;
  Times t{.gathers = s.optimizer ? 1 : 0, .reductions = 1};
  if (s.gradients && !options.no_sync) t.reductions = M;
  if (!s.parameters) return t;
  // Without a reshard after forward the unit stays until backward; or longer, as the strategy says.
  if (reshards) t.gathers = 2 * M;
  if (!reshards) t.gathers = options.no_sync && !s.reshards_after_forward ? 1 : M;
  return t;
}

inline void plan_traffic(std::span<const UnitLayout> layouts, const Options& model,
                         const Workload& workload, Plan& plan) {
  const Size F = workload.shard_size, R = workload.replicas;
  if (F * R == 1) return;
  comm::Traffic& t = plan.step;
  Options options;  // the options of one unit after the other
  const auto sent_as = [&](const RowLayout& row) {
    return row.dtype == DType::bfloat16 ? row.dtype : options.precision.param_dtype;
  };
  const auto gather = [&](const RowLayout& row, Size times) {
    if (row.parameters.empty()) return;
    t.all_gathers += times;
    t.bytes_sent += times * (F - 1) * row.bytes(options, sent_as(row)) / F;
  };
  const Size K = workload.post_forward_size % F;
  const auto gather_near = [&](const RowLayout& row, Size times) {
    if (row.parameters.empty()) return;
    t.all_gathers += times;
    // Slices have the dtype of computation, if the parameters were received in messages.
    const bool messages = sent_as(row) == DType::float8_e4m3;
    const DType slices = messages ? compute_dtype(model.precision, workload.device) : sent_as(row);
    t.bytes_sent += times * (K - 1) * row.whole_numel / K * bytes_of(slices);
  };
  for (const UnitLayout& layout : layouts) {
    const bool root = &layout == &layouts.back();
    options = options_of(layout, model);
    const bool reshards =
        layout.reshard_after_forward.value_or(options.sharding().reshards_after_forward && !root);
    auto [gathers, reductions] = times(options, workload.micro_steps, reshards);
    // The gathers of backward. The root has no slices.
    const Size near = K > 0 && !root && reshards ? gathers / 2 : 0;
    gathers -= near;
    gather(layout.trained, gathers);
    if (near > 0) gather_near(layout.trained, near);
    for (const RowLayout& row : layout.frozen) {
      // If parameters are not sharded, whole copies stay fresh.
      gather(row, options.sharding().parameters ? gathers : 0);
      if (near > 0) gather_near(row, near);
    }
    if (layout.trained.parameters.empty()) continue;
    const Size shard = layout.trained.travels(options) / F;
    const Size reduced = (F - 1) * shard * bytes_of(options.precision.reduce_dtype);
    if (options.sharding().optimizer) {
      t.reduce_scatters += reductions;
      t.bytes_sent += reductions * reduced;
    } else {
      t.all_reduces += reductions;  // a reduce-scatter and an all-gather
      t.bytes_sent += reductions * (reduced + (F - 1) * shard * bytes_of(DType::float32));
    }
    if (!options.sharding().replicates) continue;
    if (options.sharding().splits_update) {  // the update comes between them
      ++t.reduce_scatters;
      t.all_gathers += R > 1 ? 1 : 0;
    } else {
      ++t.all_reduces;
    }
    plan.bytes_across += 2 * (R - 1) * shard / R * bytes_of(DType::float32);
  }
  t.bytes_sent += plan.bytes_across;
  t.bytes_received = t.bytes_sent;
}

inline std::vector<UnitLayout> layouts_of(std::span<const fsdp::Unit> units) {
  std::vector<UnitLayout> layouts;
  for (const fsdp::Unit& unit : units) {
    UnitLayout layout{.trained = {},
                      .depth = unit.depth(),
                      .precision = unit.precision(),
                      .reshard_after_forward = unit.reshard_after_forward};
    for (const fsdp::ShardedParameters& row : unit.rows()) {
      if (&row == unit.rows().data()) {
        layout.trained = row.layout();
      } else {
        layout.frozen.emplace_back(row.layout(), row.dtype());
      }
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

inline std::vector<UnitLayout> lay_out(std::span<const std::vector<ParameterSpec>> units,
                                       const Options& options, const Workload& workload) {
  std::vector<UnitLayout> layouts;
  const int stored = workload.stored_shards(options);
  for (const auto& unit : units) {
    layouts.push_back({.trained = fsdp::Layout(unit, workload.shard_size * stored,
                                               options.alignment_on(workload.replicas / stored),
                                               options.layout)});
  }
  return layouts;
}

inline Plan plan(std::span<const UnitLayout> layouts, const Options& options,
                 const Workload& workload) {
  Options settled = options;
  if (workload.shard_size * workload.replicas == 1)
    settled.strategy = fsdp::ShardingStrategy::no_shard;
  Plan plan;
  plan_memory(layouts, settled, workload, plan);
  plan_traffic(layouts, settled, workload, plan);
  return plan;
}

/// The parameters of each unit. The root comes last.
using UnitShapes = std::vector<std::vector<fsdp::ParameterSpec>>;

}  // namespace nanofsdp::formula
