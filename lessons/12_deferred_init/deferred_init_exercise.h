#pragma once

#include <cstdint>
#include <span>

#include "fsdp/layout.h"

/// One draw of a plan: the parameter that it fills, and how many random numbers it takes.
struct PlannedDraw {
  int parameter = 0;
  std::int64_t numel = 0;
};

/// The exercise of lesson 12: which random numbers are in a piece of a parameter,
/// after the whole plan has been carried out?
///
/// The random numbers form a sequence, counted from 0. Each draw of the plan takes the next `numel`
/// numbers and fills its parameter with them, in their order. If a parameter is drawn again, the
/// later draw overwrites the earlier one. Example: the plan draws parameter 0 (4 numbers),
/// parameter 1 (6), and parameter 0 again (4). Then parameter 0 has the numbers [10, 14), and its
/// piece [1, 3) has [11, 13).
///
/// @param plan      the draws, in the order in which they are carried out
/// @param parameter a parameter that the plan draws at least once
/// @param piece     the piece of it that the rank owns, [begin, end) from the parameter's start
/// @return the numbers that this piece has at the end, [begin, end) of the sequence
nanofsdp::fsdp::Range kept(std::span<const PlannedDraw> plan, int parameter,
                           nanofsdp::fsdp::Range piece);
