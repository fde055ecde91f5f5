#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "frame/memory.h"
#include "nn/module.h"

/// @file
/// @brief Runs a module of the library. Hooks write down what they see.

namespace lesson {

using namespace nanofsdp;

//! [hooks]
// Writes " name(" when a module begins and ")" when it returns, for modules down to `depth`; in
// backward also a star for each gradient that the module has added to.
inline void hook(nn::Module& module, const std::string& name, int depth, std::string& trace) {
  const auto write = [&trace, depth](const std::string& text) {
    if (depth >= 0) trace += text;
  };
  module.hooks.pre_forward = [=](nn::Tape&) { write(" " + name + "("); };
  module.hooks.post_forward = [=](nn::Tape&) { write(")"); };
  module.hooks.pre_backward = module.hooks.pre_forward;
  module.hooks.post_backward = [=, &module, &trace](nn::Tape&) {
    for (const auto& [local, parameter] : module.own_parameters()) {
      if (std::exchange(parameter->has_grad, false)) trace += "*";
    }
    write(")");
  };
  for (const auto& [child, at] : module.children()) hook(*at, child, depth - 1, trace);
}
//! [hooks]

/// Runs forward and backward of a module. Keeps what its hooks wrote, and the error if one came.
struct Run {
  Run(nn::Module& module, const std::string& name, lesson::Memory& memory, Tensor tokens)
      : parameters(module.named_parameters()) {
    nn::Tape tape(memory.context);
    for (nn::Parameter* parameter : parameters) {
      parameter->data = memory.random(parameter->shape);
      parameter->show_grad(memory.zeros(parameter->shape));
    }
    tape.begin(/*training=*/true);
    hook(module, name, 2, forward);
    const Tensor y = module.forward(tape, tokens);
    hook(module, name, 2, backward);
    try {
      module.backward(tape, memory.random(y.shape()));
      tape.end_backward();
    } catch (const Error& thrown) {
      error = thrown.what();
    }
  }
  std::vector<nn::Parameter*> parameters;
  std::string forward, backward, error;
};

}  // namespace lesson
