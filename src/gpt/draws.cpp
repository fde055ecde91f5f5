#include <cmath>

#include "gpt/gpt.h"

namespace nanofsdp::gpt {
namespace {

using nn::DrawPlan;
using nn::Init;

// The draws of PyTorch's own constructors: an Embedding draws from N(0, 1). A Linear draws a
// Kaiming-uniform weight (a = sqrt 5) and a bias within the same bounds. A LayerNorm draws nothing.
void draw_as_constructed(nn::Module& module, DrawPlan& plan) {
  const auto& own = module.own_parameters();
  if (dynamic_cast<nn::Embedding*>(&module)) plan.push_back({own[0].second.get(), Init::normal(1)});
  if (dynamic_cast<nn::Linear*>(&module)) {
    const std::int64_t fan_in = own[0].second->shape[1];
    plan.push_back({own[0].second.get(), Init::uniform(kaiming_uniform_bound(fan_in))});
    const Init bias = Init::uniform(1 / std::sqrt(static_cast<double>(fan_in)));
    if (own.size() > 1) plan.push_back({own[1].second.get(), bias});
  }
  for (const auto& [name, child] : module.children()) draw_as_constructed(*child, plan);
}

}  // namespace

DrawPlan GPT::nanogpt_draws() {
  DrawPlan plan;
  draw_as_constructed(*this, plan);
  // nn.Module.apply(_init_weights) visits every module. It draws the head's weight last, although
  // this weight is also that of the token embedding.
  std::vector<nn::Parameter*> visited = named_parameters();
  visited.push_back(transformer_.token_weight().get());
  for (nn::Parameter* parameter : visited) plan.push_back({parameter, parameter->init});
  // Each c_proj adds to the residual path, and there are 2 * n_layer of them, so they have smaller
  // weights (GPT-2 paper).
  const double layers = 2.0 * static_cast<double>(config_.n_layer);
  const Init smaller = Init::normal(0.02 / std::sqrt(layers));
  for (nn::Parameter* parameter : visited)
    if (parameter->name.ends_with("c_proj.weight")) plan.push_back({parameter, smaller});
  return plan;
}

}  // namespace nanofsdp::gpt
