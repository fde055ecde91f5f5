#include "fsdp/deferred_init.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

// Where a parameter lies, and which draw of the plan is its last.
struct Home {
  ShardedParameters* row = nullptr;
  std::size_t index = 0;
  std::size_t last_draw = 0;
};

using Homes = std::unordered_map<const nn::Parameter*, Home>;

Homes find_homes(std::span<Unit> units, const nn::DrawPlan& plan) {
  Homes homes;
  for (Unit& unit : units) {
    unit.require_at_rest("initialisation");
    for (ShardedParameters& row : unit.rows()) {
      for (std::size_t i = 0; i < row.parameters().size(); ++i) {
        homes[row.parameters()[i]] = {&row, i, plan.size()};
      }
    }
  }
  for (std::size_t d = 0; d < plan.size(); ++d) {
    const auto home = homes.find(plan[d].parameter);
    NANOFSDP_CHECK(home != homes.end(), .what = "draw of " + plan[d].parameter->name,
                   .expected = "a parameter of some unit", .got = "none has it");
    home->second.last_draw = d;
  }
  for (const auto& [parameter, home] : homes) {
    NANOFSDP_CHECK(home.last_draw < plan.size(), .what = "initialisation of " + parameter->name,
                   .expected = "a draw", .got = "none in the plan");
  }
  return homes;
}

}  // namespace

nn::DrawPlan breadth_first_draws(std::span<const Unit> units) {
  nn::DrawPlan plan;
  // No unit enters a known module: another unit, or one that the tree has under two names.
  std::set<const nn::Module*> known;
  for (const Unit& unit : units) known.insert(&unit.module());
  for (const Unit& unit : units) {
    std::deque<nn::Module*> queue{&unit.module()};
    while (!queue.empty()) {
      const nn::Module& module = *queue.front();
      queue.pop_front();
      for (const auto& [name, parameter] : module.own_parameters()) {
        plan.push_back({parameter.get(), parameter->init});
      }
      for (const auto& [name, child] : module.children()) {
        if (known.insert(child).second) queue.push_back(child);
      }
    }
  }
  return plan;
}

void deferred_init(Context& context, std::span<Unit> units, const nn::DrawPlan& plan,
                   Generator& generator) {
  const Homes homes = find_homes(units, plan);
  std::int64_t largest = 0;
  for (const nn::Draw& draw : plan) largest = std::max(largest, draw.parameter->shape.numel());
  const Buffer scratch(context.ledger, MemoryClass::unsharded_parameters,
                       static_cast<std::size_t>(largest) * size_of(DType::float32));
  //! [draw_and_store]
  for (std::size_t d = 0; d < plan.size(); ++d) {
    const std::int64_t numel = plan[d].parameter->shape.numel();
    const Home& home = homes.at(plan[d].parameter);
    if (d != home.last_draw) {
      nn::skip(generator, plan[d].init, numel);
      continue;
    }
    const std::span<float> whole = scratch.tensor({numel}).span<float>();
    nn::draw(generator, plan[d].init, whole);
    home.row->store(home.index, whole);
  }
  //! [draw_and_store]
}

}  // namespace nanofsdp::fsdp
