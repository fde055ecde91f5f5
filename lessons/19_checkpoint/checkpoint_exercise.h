#pragma once

#include <cstdint>

#include "fsdp/layout.h"

/// The exercise of lesson 19: the files from which a rank reads.
///
/// Some ranks have saved a row of n elements. File i has the shard of rank i: ceil(n / savers)
/// elements, beginning with element i * ceil(n / savers). Padding is not saved, so the last files
/// may be shorter or empty. Now W ranks load the row, and rank r needs its own shard of ceil(n / W)
/// elements.
///
/// @param n      elements, at least 1
/// @param savers ranks that saved, at least 1
/// @param W      ranks that load, at least 1
/// @param r      the rank that loads, in [0, W)
/// @return the files from which rank r reads at least one element: those in [begin, end); {0, 0} if
///         its shard is nothing but padding
nanofsdp::fsdp::Range files_to_read(std::int64_t n, std::int64_t savers, std::int64_t W,
                                    std::int64_t r);
