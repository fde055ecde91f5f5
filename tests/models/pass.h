#pragma once

#include <functional>
#include <stdexcept>
#include <vector>

#include "nn/module.h"

namespace models {

using nanofsdp::Tensor;
namespace nn = nanofsdp::nn;

/// @file
/// @brief What the modules and hooks of a program know of the pass under way, and tell of it.

/// What a module or a hook throws where the program says so.
class Fault : public std::runtime_error {
 public:
  Fault() : std::runtime_error("a fault of the program's own") {}
};

/// One pass of one rank.
struct Pass {
  int rank = 0;
  int number = 0;
  bool together = true;       ///< a rank may have to gather: all ranks use the same modules
  int calls_to_fault = -1;    ///< of modules and hooks; the next one throws; -1: none does
  bool in_backward = false;   ///< where some modules may run forward again
  std::vector<float> seen{};  ///< by users' hooks
  std::function<void(const nn::Module&)> at_unit{};  ///< called in the hooks of a unit

  /// A module or a hook is called.
  void call() {
    if (calls_to_fault >= 0 && calls_to_fault-- == 0) throw Fault();
  }
};

/// A module of a program: it can throw.
class Counted : public nn::Module {
 public:
  Pass* pass = nullptr;  ///< of the model that it belongs to

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) final {
    pass->call();
    return compute(tape, x);
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) final {
    pass->call();
    return compute_back(tape, dy);
  }
  virtual Tensor compute(nn::Tape& tape, Tensor x) = 0;
  virtual Tensor compute_back(nn::Tape& tape, Tensor dy) = 0;
};

/// Where a user hooks in.
enum class Point { before_forward, after_forward, before_backward, after_backward };

/// Hooks of the user's, numbered `number`, on all four points. Inside a unit they look at values:
/// there parameters are whole.
inline void hook_in(nn::Module& module, int number, bool is_unit, Pass& pass) {
  const auto hook = [&module, &pass, number, is_unit](Point point) {
    return [&module, &pass, number, is_unit, point](nn::Tape&) {
      pass.call();
      const bool again = pass.in_backward && point <= Point::after_forward;
      if (is_unit && pass.at_unit) pass.at_unit(module);
      if (again) return;  // without recompute it is not called
      pass.seen.push_back(static_cast<float>(number * 4 + static_cast<int>(point)));
      if (is_unit) return;
      for (const auto& [name, parameter] : module.own_parameters()) {
        const auto values = parameter->data.span<float>();
        pass.seen.push_back(static_cast<float>(values.size()));
        pass.seen.push_back(values.front());
        pass.seen.push_back(values.back());
      }
    };
  };
  module.hooks.pre_forward.add(hook(Point::before_forward));
  module.hooks.post_forward.add(hook(Point::after_forward));
  module.hooks.pre_backward.add(hook(Point::before_backward));
  module.hooks.post_backward.add(hook(Point::after_backward));
}

}  // namespace models
