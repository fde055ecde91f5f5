#pragma once

#include <cstdint>

/// The exercise of lesson 06: the largest model that fits.
///
/// A model has n parameters. Each of W ranks keeps `whole` bytes for each of the n parameters. In
/// addition it keeps `divided` bytes for each parameter of its shard, which has n / W of them. For
/// example, float32 with ZeRO-1 has whole = 4 + 4 (parameter, gradient) and divided = 8 (moments).
///
/// @param memory  bytes that each rank has, at least 0
/// @param whole   at least 0
/// @param divided at least 0; whole + divided is at least 1
/// @param W       ranks, at least 1
/// @return the largest n for which the memory of each rank is enough, among the multiples of W
std::int64_t largest_model(std::int64_t memory, std::int64_t whole, std::int64_t divided,
                           std::int64_t W);
