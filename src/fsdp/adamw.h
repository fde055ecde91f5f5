#pragma once

#include <functional>

#include "fsdp/sharded_optimizer.h"
#include "ops/adamw.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief AdamW (ops/adamw.h), sharded. It remembers two moments, under PyTorch's names.

/// The treatment of a parameter: one of PyTorch's parameter groups.
struct ParameterGroup {
  double lr_factor = 1;     ///< the step's learning rate is multiplied by it
  double weight_decay = 0;  ///< a step takes this, times its learning rate, of each weight
};

/// The constants of AdamW; the defaults are nanoGPT's.
struct AdamWOptions {
  double beta1 = 0.9;   ///< decay of the first moment, in [0, 1)
  double beta2 = 0.95;  ///< decay of the second moment, in [0, 1)
  /// A small number that is added to the root of the second moment.
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< a step takes lr * weight_decay of each weight that decays
  /// Returns the group of a parameter, by its name or its shape. If it is not set, the groups are
  /// nanoGPT's two: parameters of at least two dimensions decay, biases and layer norms do not.
  std::function<ParameterGroup(const nn::Parameter&)> group{};
};

/// The optimizer of GPTs. It holds 8 bytes, two float32 moments, for each element that this rank
/// updates.
class AdamW final : public ShardedOptimizer {
 public:
  /// @param units of one model; they outlive the optimizer
  AdamW(Context& context, std::span<Unit> units, const AdamWOptions& options)
      : ShardedOptimizer(context, units, {"exp_avg", "exp_avg_sq"}), options_(options) {}

 private:
  void update(Stream& stream, const Update& u) override {
    const bool decays = u.parameter.shape.rank() >= 2;
    ParameterGroup group{.weight_decay = decays ? options_.weight_decay : 0};
    if (options_.group) group = options_.group(u.parameter);
    ops::adamw(stream, {.param = u.values,
                        .grad = u.gradients,
                        .m = u.state[0],
                        .v = u.state[1],
                        .lr = u.lr * group.lr_factor,
                        .beta1 = options_.beta1,
                        .beta2 = options_.beta2,
                        .eps = options_.eps,
                        .weight_decay = group.weight_decay,
                        .step = u.step,
                        .grad_scale = u.grad_scale});
  }

  AdamWOptions options_;
};

}  // namespace nanofsdp::fsdp
