#pragma once

#include <cstdint>
#include <string>

#include "fsdp/unit.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief An optimizer on what this rank owns: its shard of every unit, or the whole where nothing
/// is sharded. What it remembers lies as the shard does.
///
/// An optimizer of your own names the tensors that it remembers for each element, and says how one
/// piece of a parameter is updated. adamw.h is one. Everything else happens here:
///
///     class Momentum final : public ShardedOptimizer {
///      public:
///       Momentum(Context& context, std::span<Unit> units)
///           : ShardedOptimizer(context, units, {"momentum_buffer"}) {}
///      private:
///       void update(Stream& stream, const Update& u) override { ... u.state[0] ... }
///     };
///
/// A frozen parameter is not updated, and nothing is remembered for it. One that no rank gave a
/// gradient since zero_grad is left as it is, and its own count of steps stands still (PyTorch's
/// optimizers, where `grad` is `None`).

/// One step of what this rank owns of a parameter, float32: all of it, rows of it [rows, ...], or n
/// elements that are neighbours of each other, [n] (ShardedParameters::owned_shape).
struct Update {
  const nn::Parameter& parameter;  ///< for its name and its shape; its views are of no use here
  Tensor values;                   ///< in, out
  Tensor gradients;                ///< in       of the same shape
  std::span<const Tensor> state;   ///< in, out  of the same shape; zeros before the first step
  std::int64_t step = 1;           ///< of this parameter, counts from 1
  double lr = 0;                   ///< learning rate
  Tensor grad_scale{};  ///< in  [1], float32: multiplies the gradients (clipping); empty: 1
};

/// The base of all optimizers. A step sends nothing: each rank updates what it owns.
class ShardedOptimizer {
 public:
  virtual ~ShardedOptimizer() = default;

  /// One step on reduced gradients, with the learning rate `lr`.
  /// @param grad_scale float32 [1]: multiplies every gradient (clipping); empty: 1
  /// @throws Error if a unit is not at rest
  void step(double lr, Tensor grad_scale = {});

  std::int64_t steps() const { return steps_; }  ///< so far
  /// Goes on as after so many steps. What each parameter has made is set by itself.
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// The steps that each parameter of unit `i` which trains has made.
  std::span<std::int64_t> parameter_steps(std::size_t i) { return states_[i].steps; }

  /// What is remembered of each element, by name: a checkpoint has it under NAME of a parameter and
  /// "." and this name.
  std::span<const std::string> state_names() const { return state_names_; }
  /// That of unit `i`, in the order of the names, each as long as what the rank answers for;
  /// padding is zero, and a unit in which nothing trains has no elements.
  std::vector<Tensor> state(std::size_t i) const;

 protected:
  /// @param units of one model; they outlive the optimizer
  ShardedOptimizer(Context& context, std::span<Unit> units, std::vector<std::string> state_names);

 private:
  /// Enqueues the update on `stream`.
  virtual void update(Stream& stream, const Update& u) = 0;

  struct UnitState {
    Unit* unit = nullptr;
    std::vector<Buffer> memory;       // one a name
    std::vector<std::int64_t> steps;  // of each parameter that trains
  };

  Context& context_;
  std::vector<std::string> state_names_;
  std::vector<UnitState> states_;
  std::int64_t steps_ = 0;
};

}  // namespace nanofsdp::fsdp
