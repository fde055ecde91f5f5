#include "fsdp/sharded_optimizer.h"

#include <utility>

#include "ops/adamw.h"

namespace nanofsdp::fsdp {

ShardedOptimizer::ShardedOptimizer(Context& context, std::span<Unit> units,
                                   const AdamWOptions& options)
    : context_(context), options_(options) {
  for (Unit& unit : units) {
    UnitState& state = states_.emplace_back();
    state.unit = &unit;
    if (!unit.trains()) continue;
    state.row = &unit.rows().front();
    const auto bytes =
        static_cast<std::size_t>(state.row->optimizer_range().size()) * size_of(DType::float32);
    state.m = Buffer(context.ledger, MemoryClass::optimizer, bytes, context.device);
    state.v = Buffer(context.ledger, MemoryClass::optimizer, bytes, context.device);
    for (const nn::Parameter* p : state.row->parameters()) {
      state.decays.push_back(options_.decays(*p));
      state.steps.push_back(0);
    }
  }
}

//! [step]
void ShardedOptimizer::step(double lr, Tensor grad_scale) {
  ++steps_;
  for (UnitState& state : states_) {
    state.unit->require_at_rest("optimizer step");
    for (std::size_t i = 0; i < state.steps.size(); ++i) {
      const Range owned = state.row->optimizer_range(),
                  at = state.row->layout().piece(i, owned).in_shard;
      if (at.empty() || !state.row->has_gradient(i)) continue;
      const auto piece = [&](const Tensor& all) { return all.slice(at.begin, at.size()); };
      ops::adamw(*context_.compute, {.param = piece(state.row->optimizer_parameters()),
                                     .grad = piece(state.row->optimizer_gradients()),
                                     .m = piece(state.m.tensor({owned.size()})),
                                     .v = piece(state.v.tensor({owned.size()})),
                                     .lr = lr,
                                     .beta1 = options_.beta1,
                                     .beta2 = options_.beta2,
                                     .eps = options_.eps,
                                     .weight_decay = state.decays[i] ? options_.weight_decay : 0,
                                     .step = ++state.steps[i],
                                     .grad_scale = grad_scale});
    }
    if (state.row != nullptr) state.row->written();
  }
}
//! [step]

ShardedOptimizer::Moments ShardedOptimizer::moments(std::size_t i) const {
  if (states_[i].row == nullptr) return {};
  const std::int64_t owned = states_[i].row->optimizer_range().size();
  return {states_[i].m.tensor({owned}), states_[i].v.tensor({owned})};
}

}  // namespace nanofsdp::fsdp
