#include "nn/module.h"

#include <algorithm>

namespace nanofsdp::nn {
namespace {

void collect(Module& module, const std::string& path, std::vector<Parameter*>& found) {
  for (const auto& [name, parameter] : module.own_parameters()) {
    if (std::ranges::find(found, parameter.get()) != found.end()) continue;
    const bool is_longer = path.size() + name.size() > parameter->name.size();
    if (is_longer && !parameter->sharded) parameter->name = path + name;
    found.push_back(parameter.get());
  }
  for (const auto& [name, child] : module.children()) collect(*child, path + name + ".", found);
}

}  // namespace

Tensor Parameter::grad_to_add_to() {
  if (!requires_grad) return {};
  NANOFSDP_CHECK(!rests_, .what = "gradient of " + name, .expected = "the backward of its unit",
                 .got = "a call outside it", .hint = "wrap both modules as one unit");
  has_grad = has_grad || !grad_.empty();
  return grad_;
}

Tensor Module::forward(Tape& tape, Tensor x) {
  return bracket(tape, &Hooks::pre_forward, &Hooks::post_forward, [&] {
    const bool again = recompute && tape.saving();
    if (again) tape.save({x});
    Tape::Scope temporaries(tape, /*frees=*/again || !tape.training(), /*pauses=*/again);
    return temporaries.keep(do_forward(tape, x));
  });
}

//! [backward]
Tensor Module::backward(Tape& tape, Tensor dy) {
  return bracket(tape, &Hooks::pre_backward, &Hooks::post_backward, [&] {
    Tape::Scope temporaries(tape, /*frees=*/recompute);
    if (recompute) do_forward(tape, tape.restore<1>()[0]);
    return temporaries.keep(do_backward(tape, dy));
  });
}
//! [backward]

std::vector<Parameter*> Module::named_parameters() {
  std::vector<Parameter*> found;
  collect(*this, "", found);
  return found;
}

}  // namespace nanofsdp::nn
