#include "fsdp/sharded_optimizer.h"

#include <utility>

namespace nanofsdp::fsdp {

ShardedOptimizer::ShardedOptimizer(Context& context, std::span<Unit> units,
                                   std::vector<std::string> state_names)
    : context_(context), state_names_(std::move(state_names)) {
  for (Unit& unit : units) {
    const ShardedParameters& row = unit.rows().front();
    UnitState& state = states_.emplace_back(UnitState{.unit = &unit});
    state.steps.resize(row.parameters().size());
    for (std::size_t s = 0; s < state_names_.size(); ++s)
      state.memory.push_back(context.buffer(MemoryClass::optimizer, row.parameter_shard().numel()));
  }
}

//! [step]
void ShardedOptimizer::step(double lr, Tensor grad_scale) {
  for (const UnitState& state : states_) state.unit->require_at_rest("optimizer step");
  // All waits for the stream come before the first update.
  std::vector<std::vector<bool>> have;
  for (const UnitState& state : states_) have.push_back(state.unit->rows()[0].have_gradients());
  for (std::size_t u = 0; u < states_.size(); ++u) {
    ShardedParameters& row = states_[u].unit->rows().front();
    if (row.is_reduced()) row.written(/*all=*/false);  // copies are stale, even if an update throws
    for (std::size_t i = 0; i < row.parameters().size(); ++i) {
      const Range at = row.owned(i).in_shard;
      if (at.empty() || !have[u][i]) continue;
      const auto piece = [&](const Tensor& all) {
        return all.slice(at.begin, at.size()).view(row.owned_shape(i));
      };
      std::vector<Tensor> memory;
      for (const Tensor& all : state(u)) memory.push_back(piece(all));
      update(*context_.compute, {.parameter = *row.parameters()[i],
                                 .values = piece(row.parameter_shard()),
                                 .gradients = piece(row.gradient_shard()),
                                 .state = memory,
                                 .step = states_[u].steps[i] + 1,
                                 .lr = lr,
                                 .grad_scale = grad_scale});
      ++states_[u].steps[i];
    }
    if (row.is_reduced()) row.written(/*all=*/false);
  }
  ++steps_;
}
//! [step]

std::vector<Tensor> ShardedOptimizer::state(std::size_t i) const {
  std::vector<Tensor> all;
  for (const Buffer& memory : states_[i].memory)
    all.push_back(memory.tensor({states_[i].unit->rows().front().parameter_shard().numel()}));
  return all;
}

}  // namespace nanofsdp::fsdp
