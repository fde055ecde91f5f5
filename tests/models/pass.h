#pragma once

#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace models {

using nanofsdp::Tensor;
namespace nn = nanofsdp::nn;

/// @file
/// @brief The state of a pass, which the modules and hooks of a program read and write.

/// The error that a module or a hook throws if the program says so.
class Fault : public std::runtime_error {
 public:
  Fault() : std::runtime_error("a fault of the program's own") {}
};

/// One pass of one rank.
struct Pass {
  int rank = 0;
  int number = 0;
  bool together = true;  ///< whether a rank may have to gather, so all ranks use the same modules
  int calls_to_fault = -1;   ///< calls of modules and hooks until one throws; -1: none throws
  bool in_backward = false;  ///< whether some modules may run forward again
  int awaited = -1;  ///< number of the second hook of a point, which must come next; -1: none
  std::vector<float> seen{};                         ///< values that users' hooks have read
  std::function<void(const nn::Module&)> at_unit{};  ///< called in the hooks of a unit

  /// Counts a call of a module or a hook.
  void call() {
    if (calls_to_fault >= 0 && calls_to_fault-- == 0) throw Fault();
  }
};

/// A module of a program, which can throw.
class Counted : public nn::Module {
 public:
  Pass* pass = nullptr;  ///< the pass of its model

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

/// The points at which a user adds hooks.
enum class Point { before_forward, after_forward, before_backward, after_backward };

/// A hook of the user. A point may have two.
struct UserHook {
  int number = 0;  ///< number of the module
  bool is_second = false, is_first_of_two = false;
  bool is_of_unit = false;
};

/// Hooks must come in the order in which they were added, whatever else the module calls.
inline void require_order(Pass& pass, const UserHook& hook, Point point) {
  const int at = hook.number * 4 + static_cast<int>(point);
  const int awaited = std::exchange(pass.awaited, hook.is_first_of_two ? at : -1);
  if (awaited == (hook.is_second ? at : -1)) return;
  throw std::logic_error("the hooks of a point are not called in their order");
}

/// Adds hooks at all four points. Inside a unit the hook reads values, because parameters are whole
/// there.
inline void hook_in(nn::Module& module, const UserHook& hook, Pass& pass) {
  const auto made = [&module, &pass, hook](Point point) {
    return [&module, &pass, hook, point](nn::Tape&) {
      pass.call();
      require_order(pass, hook, point);
      const bool again = pass.in_backward && point <= Point::after_forward;
      if (hook.is_of_unit && pass.at_unit) pass.at_unit(module);
      if (again) return;  // without recompute it is not called
      pass.seen.push_back(
          static_cast<float>(hook.number * 8 + (hook.is_second ? 4 : 0) + static_cast<int>(point)));
      if (hook.is_of_unit) return;
      for (const auto& [name, parameter] : module.own_parameters()) {
        const auto values = parameter->data.span<float>();
        pass.seen.push_back(static_cast<float>(values.size()));
        pass.seen.push_back(values.front());
        pass.seen.push_back(values.back());
      }
    };
  };
  module.hooks.pre_forward.add(made(Point::before_forward));
  module.hooks.post_forward.add(made(Point::after_forward));
  module.hooks.pre_backward.add(made(Point::before_backward));
  module.hooks.post_backward.add(made(Point::after_backward));
}

}  // namespace models
