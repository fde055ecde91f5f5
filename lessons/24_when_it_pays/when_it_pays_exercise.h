#pragma once

#include <cstdint>

/// The exercise of lesson 24: how many tokens hide the communication of a unit.
///
/// A unit has n parameters. For t tokens its forward computes 2 n t operations while one all-gather
/// runs. Its backward computes 4 n t operations while an all-gather and then a reduce-scatter run.
/// A collective of W ranks goes round a ring: each rank sends (W - 1) / W of the unit's elements,
/// and each of the W - 1 steps takes `step` seconds more, for any number of bytes.
///
/// @param n           parameters of the unit, at least 1
/// @param flop_per_s  operations that a GPU computes in a second
/// @param bytes_per_s bytes that pass a GPU in a second
/// @param step        latency of one step of the ring, in seconds
/// @param element     bytes of an element
/// @param W           ranks, at least 1
/// @return the smallest whole t for which forward takes at least as long as its collective, and
///         backward as long as its two; 0 if no rank sends anything
std::int64_t tokens_to_hide(double n, double flop_per_s, double bytes_per_s, double step,
                            int element, int W);
