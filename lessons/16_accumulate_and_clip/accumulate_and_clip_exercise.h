#pragma once

#include <span>

#include "fsdp/layout.h"

/// The exercise of lesson 16: what one rank adds to the square of the gradient norm.
///
/// @param layout of one unit
/// @param rank   whose shard it is
/// @param shard  the rank's gradients of the unit, layout.shard_numel() of them. What lies in the
///   padding is undefined.
/// @return the sum of the squares of the gradients in the shard, in double
double squares(const nanofsdp::fsdp::Layout& layout, int rank, std::span<const float> shard);
