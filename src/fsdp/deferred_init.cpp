#include "fsdp/deferred_init.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>
#include <utility>

namespace nanofsdp::fsdp {

nn::DrawPlan breadth_first_draws(std::span<const Unit> units) {
  nn::DrawPlan plan;
  // A unit does not enter modules that are known: those of another unit, and those that the tree
  // has under two names.
  std::set<const nn::Module*> known;
  for (const Unit& unit : units) known.insert(unit.modules().begin(), unit.modules().end());
  for (const Unit& unit : units) {
    std::deque<nn::Module*> queue(unit.modules().begin(), unit.modules().end());
    while (!queue.empty()) {
      const nn::Module& module = *queue.front();
      queue.pop_front();
      for (const auto& [name, parameter] : module.own_parameters())
        plan.push_back({parameter.get(), parameter->init});
      for (const auto& [name, child] : module.children())
        if (known.insert(child).second) queue.push_back(child);
    }
  }
  return plan;
}

void deferred_init(Context& context, std::span<Unit> units, const nn::DrawPlan& plan,
                   Generator& generator) {
  std::unordered_map<const nn::Parameter*, std::size_t> last;  // the place of its last draw
  for (std::size_t d = 0; d < plan.size(); ++d) last[plan[d].parameter] = d;
  // The place where each parameter lies: its row, and its number there.
  std::unordered_map<const nn::Parameter*, std::pair<ShardedParameters*, std::size_t>> homes;
  for (Unit& unit : units) {
    unit.require_at_rest("initialisation");
    for (ShardedParameters& row : unit.rows()) {
      for (std::size_t i = 0; i < row.parameters().size(); ++i) {
        const nn::Parameter* const p = row.parameters()[i];
        NANOFSDP_CHECK(last.contains(p) || row.has_value(i), .what = "initialisation of " + p->name,
                       .expected = "a draw", .got = "none in the plan");
        homes[p] = {&row, i};
      }
    }
  }
  std::int64_t largest = 0;
  for (const nn::Draw& draw : plan) {
    NANOFSDP_CHECK(homes.contains(draw.parameter), .what = "draw of " + draw.parameter->name,
                   .expected = "a parameter of some unit", .got = "none has it");
    largest = std::max(largest, draw.parameter->shape.numel());
  }
  const Buffer scratch(context.ledger, MemoryClass::activations,
                       static_cast<std::size_t>(largest) * size_of(DType::float32));
  //! [draw_and_store]
  for (std::size_t d = 0; d < plan.size(); ++d) {
    const auto& [parameter, init] = plan[d];
    const std::int64_t numel = parameter->shape.numel();
    const std::span<float> whole = scratch.tensor({numel}).span<float>();
    const bool stays = d == last[parameter];  // no later draw overwrites this one
    stays ? nn::draw(generator, init, whole) : nn::skip(generator, init, numel);
    const auto [row, i] = homes[parameter];
    if (stays) row->store(i, whole);
  }
  //! [draw_and_store]
}

}  // namespace nanofsdp::fsdp
