#pragma once

#include <cstdint>

/// The exercise of lesson 18: the smallest shard group whose ranks have room.
///
/// A rank of a group of F keeps 16 bytes for each of its ceil(n / F) parameters, and `other` bytes
/// besides, whatever F is: activations, and units while they are unsharded.
///
/// @param memory bytes that each rank has
/// @param n      parameters, at least 1
/// @param W      ranks, at least 1
/// @return the smallest divisor F of W such that everything fits; 0 if none does
std::int64_t smallest_group(std::int64_t memory, std::int64_t n, std::int64_t other,
                            std::int64_t W);
