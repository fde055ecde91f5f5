#pragma once

#include <span>
#include <vector>

#include "base/dtype.h"

/// The exercise of lesson 15: the average of what the ranks have sent, in bfloat16.
///
/// Add in float32 and in the order of the ranks, scale the sum by 1.0f / W, round once.
/// to_float32 and to_bfloat16 of base/dtype.h widen and round one number.
///
/// @param ranks of each of W ranks, at least one, a row of numbers; all rows are equally long
/// @param out   as long as a row, written
void average(std::span<const std::vector<nanofsdp::bfloat16>> ranks,
             std::span<nanofsdp::bfloat16> out);
