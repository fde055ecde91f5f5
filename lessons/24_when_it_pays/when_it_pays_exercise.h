#pragma once

#include <cstdint>

/// The exercise of lesson 24: from how many tokens on the communication of a unit is free.
///
/// A unit has n parameters. For t tokens its forward computes 2 n t operations beside one
/// all-gather, and its backward 4 n t beside an all-gather and a reduce-scatter, one after the
/// other. A collective of W ranks goes round a ring: each rank passes on (W - 1) / W of the unit's
/// elements, and the W - 1 steps take `step` seconds each, whatever the size.
///
/// @param n           parameters of the unit, at least 1
/// @param flop_per_s  operations that a GPU computes in a second
/// @param bytes_per_s that the link moves past a GPU
/// @param step        seconds from one rank to the next
/// @param element     bytes of an element that travels
/// @param W           ranks, at least 1
/// @return the least whole t for which neither forward nor backward takes less time than its
///         collectives; 0 if nothing travels
std::int64_t tokens_to_hide(double n, double flop_per_s, double bytes_per_s, double step,
                            int element, int W);
