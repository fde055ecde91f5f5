#pragma once

/// The exercise of lesson 11: the four hooks of a unit. The module of the unit calls them around
/// its forward and its backward, once for each call of the module.
///
/// The unit has the verbs of lessons 07 to 10. Hooks decide when each verb runs:
///
/// - The unit computes only while its parameters are unsharded. The blocks use one memory for their
///   parameters in turn, so a block discards its parameters after each forward and each backward.
/// - In training, the root is gathered once and discarded at the very end. Its backward is the
///   first to begin and the last to return.
/// - An evaluation is a forward alone. After it, every unit is sharded again.
/// - A model may call a block several times in one forward, with the same parameters. Backward then
///   calls the block as often, and each call adds to the gradient. All ranks reduce the gradient
///   once, when it is complete. After a backward, a unit discards first and reduces then.
/// - Another forward may not call the block at all. Then no hook of the block runs.
///
/// One unit, on one rank. All ranks call the same verbs in the same order.
class HookedUnit {
 public:
  virtual ~HookedUnit() = default;

  /// Whether this is the root: the whole model, with the parameters that are in no block.
  virtual bool is_root() const = 0;
  /// Whether a backward follows this forward. False in an evaluation.
  virtual bool is_training() const = 0;
  /// Whether the unit has borrowed memory for its gradient, and has not reduced it yet.
  virtual bool has_gradient() const = 0;

  /// All-gathers the parameters into the memory of whole parameters, which the views then show.
  virtual void gather() = 0;
  /// Gives the memory back, filled with NaN. Another unit may gather into it next.
  virtual void discard() = 0;
  /// Borrows memory for the whole gradient. It holds NaN until zero() is called.
  virtual void borrow() = 0;
  /// Fills the borrowed memory with zeros.
  virtual void zero() = 0;
  /// Reduce-scatters the gradient into the shards, and gives the borrowed memory back.
  virtual void reduce() = 0;

  /// A number that is yours, 0 at first. The unit keeps it from hook to hook and from step to step.
  int calls = 0;
};

void pre_forward(HookedUnit& unit);    ///< before each forward of the module
void post_forward(HookedUnit& unit);   ///< after it
void pre_backward(HookedUnit& unit);   ///< before each backward of the module
void post_backward(HookedUnit& unit);  ///< after it
