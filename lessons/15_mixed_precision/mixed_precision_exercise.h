#pragma once

#include <span>
#include <vector>

#include "base/dtype.h"

/// The exercise of lesson 15: the float32 average of the rows that W ranks have sent in bfloat16.
///
/// Add in float32, in the order of the ranks. Multiply the sum by 1.0f / W.
/// nanofsdp::to_float32 of base/dtype.h widens one number.
///
/// @param ranks one row of numbers for each of the W ranks. W is 1 or more; all rows have one
/// length
/// @param out   the averages; as long as a row
void average(std::span<const std::vector<nanofsdp::bfloat16>> ranks, std::span<float> out);
