#pragma once

#include <cstdint>

/// The exercise of lesson 21: the largest units for which there is room.
///
/// A model has n blocks of `block` parameters each, and `root` parameters in its root unit. A unit
/// is k blocks; the last one has what is left. Under full_shard, in float32 with Adam, one of W
/// ranks keeps 16 bytes for each element of its shards, one of each unit, rounded up; and it
/// borrows (4 + 4) bytes for each element of two slots, as large as W shards of the largest block
/// unit, and of the root, which is as large as W of its shards.
///
/// @param memory bytes that a rank has
/// @param n      at least 1
/// @param W      at least 2
/// @return the largest k, from 1 to n, such that everything fits; 0 if none does
std::int64_t blocks_a_unit(std::int64_t memory, std::int64_t n, std::int64_t block,
                           std::int64_t root, std::int64_t W);
