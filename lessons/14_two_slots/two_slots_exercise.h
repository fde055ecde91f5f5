#pragma once

/// A forward pass over units 0, 1, 2, ... Unit u is gathered into slot number u modulo `slots`.
struct Schedule {
  int units = 0;
  int slots = 1;    ///< at least 1
  int gather = 0;   ///< how long the all-gather of a unit takes
  int compute = 0;  ///< how long the computation of a unit takes
};

/// The exercise of lesson 14: when is a forward pass over?
///
/// The all-gathers run one after another, and so do the computations. A unit can compute after its
/// all-gather has ended. A unit's all-gather can begin after the unit that was in the same slot
/// before has computed.
///
/// @return when the last computation ends, if the first all-gather begins at 0. No units: 0
int finish(const Schedule& schedule);
