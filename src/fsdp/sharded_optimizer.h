#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "fsdp/unit.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief AdamW on what this rank owns: its shard of every unit, or the whole where nothing is
/// sharded. The moments lie as the shard does.
///
/// A frozen parameter has no moments. One that no rank gave a gradient since zero_grad is left as
/// it is, moments and all, and its own count of steps, which Adam's bias correction goes by, stands
/// still (PyTorch's optimizers, where `grad` is `None`).

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  /// Which parameters decay. nanoGPT: those of at least two dimensions, by their shape before
  /// flattening; biases and layer norms do not.
  std::function<bool(const nn::Parameter&)> decays = [](const nn::Parameter& parameter) {
    return parameter.shape.rank() >= 2;
  };
};

class ShardedOptimizer {
 public:
  /// @param units of one model; they outlive the optimizer
  ShardedOptimizer(Context& context, std::span<Unit> units, const AdamWOptions& options);

  /// One step on reduced gradients.
  /// @param grad_scale float32 [1]: multiplies every gradient (clipping)
  void step(double lr, Tensor grad_scale);

  std::int64_t steps() const { return steps_; }
  /// Goes on as after so many steps. What each parameter has made is set by itself.
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// The steps that each parameter of unit `i` which trains has made.
  std::span<std::int64_t> parameter_steps(std::size_t i) { return states_[i].steps; }
  std::span<const std::int64_t> parameter_steps(std::size_t i) const { return states_[i].steps; }

  /// Adam's m and v of unit `i`, each [size of its optimizer range]; padding is zero. Empty if the
  /// unit is frozen.
  struct Moments {
    Tensor m;
    Tensor v;
  };
  Moments moments(std::size_t i) const;

 private:
  struct UnitState {
    const Unit* unit = nullptr;
    ShardedParameters* row = nullptr;  // null if nothing of the unit trains
    std::vector<bool> decays;          // of each parameter
    std::vector<std::int64_t> steps;
    Buffer m;
    Buffer v;
  };

  Context& context_;
  AdamWOptions options_;
  std::vector<UnitState> states_;
  std::int64_t steps_ = 0;
};

}  // namespace nanofsdp::fsdp
