#pragma once

#include "fsdp/unit.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Guesses which unit comes next. In forward it is the unit that came next in the last pass.
/// In backward, among the units that still have a backward to do, it is the unit whose forward
/// ended last.
///
/// A unit that is used twice comes twice. If a model uses its units in another order than before,
/// the guess is wrong. Then one gather was not needed, and nothing else happens.

/// The orders in which a pass uses the units. Each pass records its own.
class Schedule {
 public:
  /// A pass begins.
  void begin();

  /// The forward of a unit begins. Does nothing in backward, where recompute runs some forwards
  /// again. Only units that were gathered are recorded for the next pass. All ranks gather the same
  /// units; but in a pass that gathers nothing, each rank may use different ones.
  /// @returns the units that the last pass used after this one: `count` of them, or fewer
  std::vector<Unit*> begin_forward(Unit& unit, int count);
  /// The forward of a unit ends. Does nothing in backward.
  void end_forward(Unit& unit) {
    if (!in_backward_) ended_.push_back(&unit);
  }
  bool in_backward() const { return in_backward_; }  ///< whether this pass has begun its backward
  /// The backward of a unit begins.
  void begin_backward(const Unit& unit);

  /// The unit whose forward ended just before that of the current one, if there is one.
  std::vector<Unit*> next_in_backward() const {
    return {ended_.end() - (ended_.empty() ? 0 : 1), ended_.end()};
  }

 private:
  std::vector<Unit*> begun_;   // gathered units that have begun their forward, in order
  std::vector<Unit*> before_;  // the same of the last pass
  // Units that have ended their forward; in backward, those before the current unit.
  std::vector<Unit*> ended_;
  std::span<Unit* const> left_;  // the rest of before_, behind the current unit
  bool in_backward_ = false;
};

}  // namespace nanofsdp::fsdp
