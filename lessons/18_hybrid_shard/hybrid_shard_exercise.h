#pragma once

#include <cstdint>

/// The exercise of lesson 18: the smallest shard group whose ranks have enough memory.
///
/// In a group of F ranks, each rank keeps 16 bytes for each of its ceil(n / F) parameters. It also
/// needs `other` bytes, for any F: activations, and units while they are unsharded.
///
/// @param memory how many bytes each rank has
/// @param n      number of parameters, at least 1
/// @param W      number of ranks, at least 1
/// @return the smallest divisor F of W with which a rank needs no more than `memory`; 0: there is
/// none
std::int64_t smallest_group(std::int64_t memory, std::int64_t n, std::int64_t other,
                            std::int64_t W);
