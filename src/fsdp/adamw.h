#pragma once

#include <functional>
#include <span>

#include "fsdp/sharded_optimizer.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief AdamW (ops/adamw.h), sharded. It remembers two moments, under PyTorch's names.

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

class AdamW final : public ShardedOptimizer {
 public:
  /// @param units of one model; they outlive the optimizer
  AdamW(Context& context, std::span<Unit> units, const AdamWOptions& options)
      : ShardedOptimizer(context, units, {"exp_avg", "exp_avg_sq"}), options_(options) {}

 private:
  void update(Stream& stream, const Update& u) override;

  AdamWOptions options_;
};

}  // namespace nanofsdp::fsdp
