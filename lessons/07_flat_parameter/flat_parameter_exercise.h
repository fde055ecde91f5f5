#pragma once

#include <span>
#include <vector>

#include "fsdp/layout.h"

/// The exercise of lesson 07: the views of all parameters in one row.
///
/// Each parameter begins at the first multiple of `alignment` that is not before the end of the
/// parameter that precedes it; the first one at 0.
///
/// @param row        the flat parameter, long enough; nothing is copied and nothing written
/// @param parameters in the order in which they lie in the row; some may have no elements
/// @param alignment  in elements, at least 1
/// @return one view a parameter: it begins where the parameter does and has numel() elements
std::vector<std::span<float>> views(std::span<float> row,
                                    std::span<const nanofsdp::fsdp::ParameterSpec> parameters,
                                    std::int64_t alignment);
