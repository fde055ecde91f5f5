#include "nn/module.h"

#include <algorithm>

namespace nanofsdp::nn {
namespace {

void call(const std::function<void()>& hook) {
  if (hook) hook();
}

void collect(Module& module, const std::string& path, std::vector<Parameter*>& found) {
  for (const auto& [name, parameter] : module.own_parameters()) {
    if (std::ranges::find(found, parameter.get()) != found.end()) continue;
    parameter->name = path + name;
    found.push_back(parameter.get());
  }
  for (const auto& [name, child] : module.children()) collect(*child, path + name + ".", found);
}

}  // namespace

Tensor Module::forward(Tape& tape, Tensor x) {
  call(hooks.pre_forward);
  const Tensor y = do_forward(tape, x);
  call(hooks.post_forward);
  return y;
}

Tensor Module::backward(Tape& tape, Tensor dy) {
  call(hooks.pre_backward);
  const Tensor dx = do_backward(tape, dy);
  call(hooks.post_backward);
  return dx;
}

std::vector<Parameter*> Module::named_parameters() {
  std::vector<Parameter*> found;
  collect(*this, "", found);
  return found;
}

}  // namespace nanofsdp::nn
