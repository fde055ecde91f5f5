#include "nn/module.h"

#include <algorithm>

#include "ops/elementwise.h"

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
  const bool unsaved = recompute && !recomputing_ && tape.saving();
  const Tensor y = unsaved ? forward_unsaved(tape, x) : do_forward(tape, x);
  call(hooks.post_forward);
  return y;
}

Tensor Module::backward(Tape& tape, Tensor dy) {
  call(hooks.pre_backward);
  const Tensor dx = recompute ? backward_again(tape, dy) : do_backward(tape, dy);
  call(hooks.post_backward);
  return dx;
}

Tensor Module::forward_unsaved(Tape& tape, Tensor x) {
  const Tensor y = tape.allocate(x.shape());
  {
    const Tape::Scope temporaries(tape);
    const Tape::Pause pause(tape);
    ops::copy(tape.stream(), {.in = do_forward(tape, x), .out = y});
  }
  tape.save({x});
  return y;
}

//! [backward_again]
Tensor Module::backward_again(Tape& tape, Tensor dy) {
  const Tape::Scope temporaries(tape);
  const auto [x] = tape.restore<1>();
  recomputing_ = true;
  forward(tape, x);
  recomputing_ = false;
  const Tensor dx = do_backward(tape, dy);
  if (dx.raw() != dy.raw()) ops::copy(tape.stream(), {.in = dx, .out = dy});
  return dy;
}
//! [backward_again]

std::vector<Parameter*> Module::named_parameters() {
  std::vector<Parameter*> found;
  collect(*this, "", found);
  return found;
}

}  // namespace nanofsdp::nn
