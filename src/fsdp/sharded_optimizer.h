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
  /// Goes on as after so many steps, with the moments of then.
  void set_steps(std::int64_t steps) { steps_ = steps; }

  /// Adam's m and v of unit `i`, each [size of its optimizer range]; padding is zero.
  struct Moments {
    Tensor m;
    Tensor v;
  };
  Moments moments(std::size_t i) const;

  /// Elements of this rank that decay, and that do not; padding counts in neither.
  std::int64_t decayed_numel() const { return numel(true); }
  std::int64_t undecayed_numel() const { return numel(false); }

 private:
  // Neighbouring elements of the optimizer's range that are treated alike.
  struct Segment {
    Range range;
    bool decays = false;
  };
  struct UnitState {
    Unit* unit = nullptr;
    std::vector<Segment> segments;
    Buffer m;
    Buffer v;
  };
  std::int64_t numel(bool decays) const;

  Context& context_;
  AdamWOptions options_;
  std::vector<UnitState> states_;
  std::int64_t steps_ = 0;
};

}  // namespace nanofsdp::fsdp
