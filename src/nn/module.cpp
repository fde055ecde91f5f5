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

Tensor Module::forward(Tape& tape, Tensor x) {
  const Tape::AtWork at_work(tape, *this);
  hooks.pre_forward(tape);
  innermost.pre_forward(tape);
  const bool unsaved = recompute && tape.saving();
  const Tensor y = unsaved ? forward_unsaved(tape, x) : do_forward(tape, x);
  innermost.post_forward(tape);
  hooks.post_forward(tape);
  return y;
}

//! [backward]
Tensor Module::backward(Tape& tape, Tensor dy) {
  const Tape::AtWork at_work(tape, *this);
  hooks.pre_backward(tape);
  innermost.pre_backward(tape);
  const Tensor dx = recompute ? backward_again(tape, dy) : do_backward(tape, dy);
  innermost.post_backward(tape);
  hooks.post_backward(tape);
  return dx;
}
//! [backward]

Tensor Module::forward_unsaved(Tape& tape, Tensor x) {
  Tensor y;
  {
    Tape::Scope temporaries(tape);
    const Tape::Pause pause(tape);
    y = temporaries.keep(do_forward(tape, x));
  }
  tape.save({x});
  return y;
}

//! [backward_again]
Tensor Module::backward_again(Tape& tape, Tensor dy) {
  Tape::Scope temporaries(tape);
  const auto [x] = tape.restore<1>();
  do_forward(tape, x);
  const Tensor dx = do_backward(tape, dy);
  return dx.address() == dy.address() ? dx : temporaries.keep(dx);
}
//! [backward_again]

std::vector<Parameter*> Module::named_parameters() {
  std::vector<Parameter*> found;
  collect(*this, "", found);
  return found;
}

}  // namespace nanofsdp::nn
