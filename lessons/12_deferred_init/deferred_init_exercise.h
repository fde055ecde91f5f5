#pragma once

#include <cstdint>
#include <span>

#include "fsdp/layout.h"

/// A draw of a plan: which parameter it fills, and how many numbers it takes from the stream.
struct PlannedDraw {
  int parameter = 0;
  std::int64_t numel = 0;
};

/// The exercise of lesson 12: which numbers of the stream stay on a rank.
///
/// @param plan      in the order of the stream; a parameter that is drawn again is overwritten
/// @param parameter one that the plan draws at least once
/// @param piece     of the parameter that the rank owns, [begin, end) from the parameter's start
/// @return the numbers that the piece ends up with, [begin, end) from the start of the stream
nanofsdp::fsdp::Range kept(std::span<const PlannedDraw> plan, int parameter,
                           nanofsdp::fsdp::Range piece);
