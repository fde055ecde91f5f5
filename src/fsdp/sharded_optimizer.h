#pragma once

#include <cstdint>
#include <string>

#include "fsdp/unit.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief An optimizer of the elements that this rank owns: its shard of every unit, or the whole
/// unit if nothing is sharded. Its state has the layout of the shard.
///
/// You can write an optimizer of your own. It names the tensors that it remembers for each element,
/// and it updates one piece of a parameter. adamw.h is an example. Everything else happens here:
///
///     class Momentum final : public ShardedOptimizer {
///      public:
///       Momentum(Context& context, std::span<Unit> units)
///           : ShardedOptimizer(context, units, {"momentum_buffer"}) {}
///      private:
///       void update(Stream& stream, const Update& u) override { ... u.state[0] ... }
///     };
///
/// The optimizer does not update a parameter that was frozen before its backward. If no rank has
/// had a gradient of a parameter since zero_grad, the parameter stays as it is, and its count of
/// steps does not grow. PyTorch's optimizers treat a `grad` of `None` in the same way.

/// One step of the elements that this rank owns of a parameter, in float32. They are the whole
/// parameter, or some of its rows [rows, ...], or n neighbouring elements [n]
/// (ShardedParameters::owned_shape).
struct Update {
  const nn::Parameter& parameter;  ///< read its name and its shape, but not its views
  Tensor values;                   ///< in, out
  Tensor gradients;                ///< in       of the same shape
  std::span<const Tensor> state;   ///< in, out  of the same shape; zeros before the first step
  std::int64_t step = 1;           ///< the number of this step of the parameter, from 1
  double lr = 0;                   ///< the learning rate
  Tensor grad_scale{};  ///< in  float32 [1]: multiply the gradients by it (clipping); empty: by 1
};

/// The base of all optimizers. Its step sends nothing, because each rank updates its own elements.
/// An optimizer that needs whole tensors overrides step(), calls this one first, and then gathers.
class ShardedOptimizer {
 public:
  virtual ~ShardedOptimizer() = default;

  /// Makes a step with the reduced gradients.
  /// @param lr the learning rate
  /// @param grad_scale float32 [1]: every gradient is multiplied by it (clipping); empty: by 1
  /// @throws Error if a unit is not at rest
  virtual void step(double lr, Tensor grad_scale = {});

  std::int64_t steps() const { return steps_; }  ///< how many steps it has made
  /// Sets the count of steps. The counts of the parameters are set by parameter_steps().
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// How many steps each parameter of unit `i` has made, of those that train; 0 if this rank owns
  /// no element of the parameter.
  std::span<std::int64_t> parameter_steps(std::size_t i) { return states_[i].steps; }

  /// Returns unit `i` of those that it was made for; null behind the last one.
  const Unit* unit(std::size_t i) const { return i < states_.size() ? states_[i].unit : nullptr; }

  /// The names of the tensors that it remembers. A checkpoint has the tensor of a parameter under
  /// the parameter's name, a dot, and this name.
  std::span<const std::string> state_names() const { return state_names_; }
  /// These tensors of unit `i`, in the order of the names. Each has the length of
  /// ShardedParameters::parameter_shard(). Padding is zero. If nothing in the unit trains, they
  /// have no elements.
  std::vector<Tensor> state(std::size_t i) const;

 protected:
  /// @param units the units of one model; they must outlive the optimizer
  ShardedOptimizer(Context& context, std::span<Unit> units, std::vector<std::string> state_names);

 private:
  /// Enqueues the update on `stream`.
  virtual void update(Stream& stream, const Update& u) = 0;

  struct UnitState {
    Unit* unit = nullptr;
    std::vector<Buffer> memory;       // one for each name
    std::vector<std::int64_t> steps;  // steps of each parameter that trains
  };

  Context& context_;
  std::vector<std::string> state_names_;
  std::vector<UnitState> states_;
  std::int64_t steps_ = 0;
};

}  // namespace nanofsdp::fsdp
