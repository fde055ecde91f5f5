#pragma once

#include <cstdint>

/// The exercise of lesson 00: how many ranks does a model need?
///
/// Each of W ranks keeps a shard of ceil(n / W) parameters, and `kept` bytes for each of these. In
/// addition each rank borrows `borrowed` bytes for the units that it gathers. This part does not
/// shrink with W.
///
/// @param n        parameters of the model, at least 1
/// @param kept     bytes for each parameter of a shard, at least 1; 16 in this lesson
/// @param borrowed bytes, at least 0
/// @param memory   bytes of each rank, at least 0
/// @return the smallest W for which the memory is enough, or 0 if no W is large enough
std::int64_t fewest_ranks(std::int64_t n, std::int64_t kept, std::int64_t borrowed,
                          std::int64_t memory);
