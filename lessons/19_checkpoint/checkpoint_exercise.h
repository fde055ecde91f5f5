#pragma once

#include <cstdint>

#include "fsdp/layout.h"

/// The exercise of lesson 19: from whose files a rank reads.
///
/// A row of n elements was saved by V ranks, rank i its shard of ceil(n / V) elements from
/// i * ceil(n / V) on, the padding left out. Now W ranks load it, and rank r wants its shard of
/// ceil(n / W).
///
/// @param n  elements, at least 1
/// @param V  ranks that saved, at least 1
/// @param W  ranks that load, at least 1
/// @param r  one of these, in [0, W)
/// @return the saving ranks from whose files r reads anything: those in [begin, end); {0, 0} if it
///         wants nothing but padding
nanofsdp::fsdp::Range files_to_read(std::int64_t n, std::int64_t V, std::int64_t W, std::int64_t r);
