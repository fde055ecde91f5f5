#pragma once

#include <functional>

#include "fsdp/sharded_optimizer.h"
#include "ops/adamw.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief AdamW (ops/adamw.h), sharded. It remembers two moments, under PyTorch's names.

/// The constants of AdamW; the defaults are nanoGPT's.
struct AdamWOptions {
  double beta1 = 0.9;   ///< decay of the first moment, in [0, 1)
  double beta2 = 0.95;  ///< decay of the second moment, in [0, 1)
  /// A small number that is added to the root of the second moment.
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< a step takes lr * weight_decay of each weight that decays
  /// Which parameters decay. nanoGPT: those of at least two dimensions, by their shape before
  /// flattening; biases and layer norms do not.
  std::function<bool(const nn::Parameter&)> decays = [](const nn::Parameter& parameter) {
    return parameter.shape.rank() >= 2;
  };
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
    ops::adamw(stream, {.param = u.values,
                        .grad = u.gradients,
                        .m = u.state[0],
                        .v = u.state[1],
                        .lr = u.lr,
                        .beta1 = options_.beta1,
                        .beta2 = options_.beta2,
                        .eps = options_.eps,
                        .weight_decay = options_.decays(u.parameter) ? options_.weight_decay : 0,
                        .step = u.step,
                        .grad_scale = u.grad_scale});
  }

  AdamWOptions options_;
};

}  // namespace nanofsdp::fsdp
