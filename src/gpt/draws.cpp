#include <cmath>

#include "gpt/gpt.h"

namespace nanofsdp::gpt {
namespace {

using nn::Draw;
using nn::DrawPlan;
using nn::Init;
using nn::Module;

// What PyTorch's own constructors draw: an Embedding N(0, 1); a Linear a Kaiming-uniform weight
// (a = sqrt 5) and a bias in the same bounds; a LayerNorm nothing.
void draw_as_constructed(Module& module, DrawPlan& plan) {
  const auto& own = module.own_parameters();
  if (dynamic_cast<nn::Embedding*>(&module)) plan.push_back({own[0].second.get(), Init::normal(1)});
  if (dynamic_cast<nn::Linear*>(&module)) {
    const std::int64_t fan_in = own[0].second->shape[1];
    plan.push_back({own[0].second.get(), Init::uniform(kaiming_uniform_bound(fan_in))});
    if (own.size() > 1) {
      plan.push_back(
          {own[1].second.get(), Init::uniform(1 / std::sqrt(static_cast<double>(fan_in)))});
    }
  }
  for (const auto& [name, child] : module.children()) draw_as_constructed(*child, plan);
}

// nn.Module.apply(_init_weights): children before their parent; every weight N(0, 0.02), also those
// that are drawn once more below.
void draw_by_apply(Module& module, DrawPlan& plan) {
  for (const auto& [name, child] : module.children()) draw_by_apply(*child, plan);
  for (const auto& [name, parameter] : module.own_parameters()) {
    const bool scaled = parameter->init.kind == Init::Kind::normal;
    plan.push_back({parameter.get(), scaled ? Init::normal(0.02) : parameter->init});
  }
}

void draw_residual_projections(Module& module, DrawPlan& plan) {
  for (const auto& [name, child] : module.children()) {
    if (name == "c_proj") {
      nn::Parameter* weight = child->own_parameters()[0].second.get();
      plan.push_back({weight, weight->init});
    }
    draw_residual_projections(*child, plan);
  }
}

}  // namespace

DrawPlan GPT::nanogpt_draws() {
  DrawPlan plan;
  draw_as_constructed(*this, plan);
  draw_by_apply(*this, plan);
  draw_residual_projections(*this, plan);
  return plan;
}

}  // namespace nanofsdp::gpt
