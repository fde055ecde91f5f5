#pragma once

/// A forward pass over units that take slots in turn: unit u has slot u modulo `slots`.
struct Schedule {
  int units = 0;
  int slots = 1;    ///< at least 1
  int gather = 0;   ///< how long the gather of a unit takes
  int compute = 0;  ///< how long its computation takes
};

/// The exercise of lesson 14: when a forward pass is over.
///
/// Gathers run one after the other, and so do computations. A unit computes when it has been
/// gathered. It is gathered into its slot when the unit that had the slot before has computed.
///
/// @return when the last computation ends, if the first gather starts at 0
int finish(const Schedule& schedule);
