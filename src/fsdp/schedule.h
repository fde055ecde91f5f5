#pragma once

#include "fsdp/unit.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Which unit comes next: in forward the one that came next in the pass before that
/// gathered, in backward the one whose forward ended before in this pass.
///
/// A unit that is used twice comes twice. A guess may be wrong, where a model takes another way
/// than before: then one gather was not needed, and nothing else happens.

/// The orders in which a pass used the units, recorded anew in each pass.
class Schedule {
 public:
  /// A pass begins.
  void begin();

  /// Forward begins, or ends, with a unit. Does nothing in backward, where some of it runs again.
  /// Only what was gathered is guessed by: all ranks gather alike, but where they need not, each
  /// may go its own way.
  void begin_forward(Unit& unit);
  /// @copydoc begin_forward()
  void end_forward(Unit& unit) {
    if (!in_backward_) ended_.push_back(&unit);
  }
  bool in_backward() const { return in_backward_; }  ///< of this pass
  /// Backward begins with a unit.
  void begin_backward(const Unit& unit);

  /// The units that the pass before used after the current one: the next `count`, or fewer.
  std::vector<Unit*> next_in_forward(int count) const;
  /// The unit whose forward ended just before that of the current one, if there is one.
  std::vector<Unit*> next_in_backward() const {
    if (ended_.empty()) return {};
    return {ended_.back()};
  }

 private:
  std::vector<Unit*> begun_;     // in forward, of those that were gathered
  std::vector<Unit*> before_;    // begun in the pass before
  std::vector<Unit*> ended_;     // with forward; in backward, those before the current unit
  std::span<Unit* const> left_;  // the rest of that, behind the current unit
  bool known_ = false;           // whether the pass before used the current unit
  bool in_backward_ = false;
};

}  // namespace nanofsdp::fsdp
