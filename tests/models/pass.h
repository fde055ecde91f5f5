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
  int awaited = -1;           ///< the second of two hooks of a point: it comes next
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

/// A hook of the user's, of which a point may have two.
struct UserHook {
  int number = 0;  ///< of the module
  bool is_second = false, is_first_of_two = false;
  bool is_of_unit = false;
};

/// Hooks come in the order in which they were added, whatever the module calls else.
inline void require_order(Pass& pass, const UserHook& hook, Point point) {
  const int at = hook.number * 4 + static_cast<int>(point);
  const int awaited = std::exchange(pass.awaited, hook.is_first_of_two ? at : -1);
  if (awaited == (hook.is_second ? at : -1)) return;
  throw std::logic_error("the hooks of a point are not called in their order");
}

/// Hooks in on all four points. Inside a unit the hook looks at values: there parameters are whole.
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
