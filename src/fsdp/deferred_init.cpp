#include "fsdp/deferred_init.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

// The place where a parameter lies: its row, and its number there.
using Home = std::pair<ShardedParameters*, std::size_t>;

// The home of each parameter, by the place of its last draw in the plan.
std::unordered_map<std::size_t, Home> find_homes(std::span<Unit> units, const nn::DrawPlan& plan) {
  std::unordered_map<const nn::Parameter*, std::size_t> last;
  for (std::size_t d = 0; d < plan.size(); ++d) last[plan[d].parameter] = d;
  std::unordered_map<std::size_t, Home> homes;
  for (Unit& unit : units) {
    unit.require_at_rest("initialisation");
    for (ShardedParameters& row : unit.rows()) {
      for (std::size_t i = 0; i < row.parameters().size(); ++i) {
        const auto drawn = last.extract(row.parameters()[i]);
        NANOFSDP_CHECK(!drawn.empty() || row.has_value(i),
                       .what = "initialisation of " + row.parameters()[i]->name,
                       .expected = "a draw", .got = "none in the plan");
        if (!drawn.empty()) homes[drawn.mapped()] = {&row, i};
      }
    }
  }
  NANOFSDP_CHECK(last.empty(), .what = "draw of " + last.begin()->first->name,
                 .expected = "a parameter of some unit", .got = "none has it");
  return homes;
}

}  // namespace

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
  const auto homes = find_homes(units, plan);
  std::int64_t largest = 0;
  for (const nn::Draw& draw : plan) largest = std::max(largest, draw.parameter->shape.numel());
  const Buffer scratch(context.ledger, MemoryClass::activations,
                       static_cast<std::size_t>(largest) * size_of(DType::float32));
  //! [draw_and_store]
  for (std::size_t d = 0; d < plan.size(); ++d) {
    const std::int64_t numel = plan[d].parameter->shape.numel();
    const auto home = homes.find(d);
    if (home == homes.end()) {  // a later draw overwrites this one
      nn::skip(generator, plan[d].init, numel);
      continue;
    }
    const std::span<float> whole = scratch.tensor({numel}).span<float>();
    nn::draw(generator, plan[d].init, whole);
    const auto [row, i] = home->second;
    row->store(i, whole);
  }
  //! [draw_and_store]
}

}  // namespace nanofsdp::fsdp
