#pragma once

#include <cstdint>

/// The exercise of lesson 06: the largest model that fits.
///
/// A rank keeps `whole` bytes for every parameter, and `divided` bytes for every parameter of its
/// W-th of them: float32 with ZeRO-1 has whole = 4 + 4 and divided = 8.
///
/// @param memory  bytes that each rank has for this, at least 0
/// @param whole   at least 0
/// @param divided at least 0; whole + divided is at least 1
/// @param W       ranks, at least 1
/// @return the largest number of parameters, a multiple of W, that every rank has room for
std::int64_t largest_model(std::int64_t memory, std::int64_t whole, std::int64_t divided,
                           std::int64_t W);
