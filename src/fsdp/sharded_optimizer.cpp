#include "fsdp/sharded_optimizer.h"

#include <utility>

#include "ops/adamw.h"

namespace nanofsdp::fsdp {

ShardedOptimizer::ShardedOptimizer(Context& context, std::span<Unit> units,
                                   const AdamWOptions& options)
    : context_(context), options_(options) {
  for (Unit& unit : units) {
    const FlatParameter& flat = unit.flat();
    const Range owned = flat.optimizer_range();
    const auto bytes = static_cast<std::size_t>(owned.size()) * size_of(DType::float32);
    UnitState state{.unit = &unit,
                    .segments = {},
                    .m = Buffer(context.ledger, MemoryClass::optimizer, bytes, context.device),
                    .v = Buffer(context.ledger, MemoryClass::optimizer, bytes, context.device)};
    for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
      const Range range = flat.layout().piece(i, owned).in_shard;
      if (range.empty() || !flat.parameters()[i]->requires_grad) continue;
      const bool decays = options_.decays(*flat.parameters()[i]);
      auto& segments = state.segments;
      if (!segments.empty() && segments.back().decays == decays &&
          segments.back().range.end == range.begin) {
        segments.back().range.end = range.end;
      } else {
        segments.push_back({range, decays});
      }
    }
    states_.push_back(std::move(state));
  }
}

void ShardedOptimizer::step(double lr, Tensor grad_scale) {
  ++steps_;
  for (UnitState& state : states_) {
    state.unit->require_at_rest("optimizer step");
    const FlatParameter& flat = state.unit->flat();
    const std::int64_t owned = flat.optimizer_range().size();
    for (const auto& [range, decays] : state.segments) {
      ops::adamw(*context_.compute,
                 {.param = flat.optimizer_parameters().slice(range.begin, range.size()),
                  .grad = flat.optimizer_gradients().slice(range.begin, range.size()),
                  .m = state.m.tensor({owned}).slice(range.begin, range.size()),
                  .v = state.v.tensor({owned}).slice(range.begin, range.size()),
                  .lr = lr,
                  .beta1 = options_.beta1,
                  .beta2 = options_.beta2,
                  .eps = options_.eps,
                  .weight_decay = decays ? options_.weight_decay : 0,
                  .step = steps_,
                  .grad_scale = grad_scale});
    }
    state.unit->flat().written();
  }
}

ShardedOptimizer::Moments ShardedOptimizer::moments(std::size_t i) const {
  const std::int64_t owned = states_[i].unit->flat().optimizer_range().size();
  return {states_[i].m.tensor({owned}), states_[i].v.tensor({owned})};
}

std::int64_t ShardedOptimizer::numel(bool decays) const {
  std::int64_t n = 0;
  for (const UnitState& state : states_) {
    for (const Segment& segment : state.segments) {
      if (segment.decays == decays) n += segment.range.size();
    }
  }
  return n;
}

}  // namespace nanofsdp::fsdp
