#pragma once

#include <cstdint>

/// The exercise of lesson 21: the largest units for which a rank has enough memory.
///
/// A model has `blocks` blocks of `block` parameters each, and `root` parameters in its root unit.
/// Every k blocks are one unit; the last unit has the blocks that are left. The shard of a unit
/// with n parameters has s(n) = ceil(n / W) elements. Under full_shard, in float32 with Adam, a
/// rank
///
///   - keeps 16 bytes for each element of its shards, one shard of each unit and of the root;
///   - borrows 4 + 4 bytes for each element of three slots: two of W * s(k * block) elements each,
///     and the root's of W * s(root). If all blocks are one unit, it needs one of the two.
///
/// @param memory bytes that a rank has
/// @param blocks at least 1
/// @param W      at least 2
/// @return the largest k from 1 to `blocks` for which kept and borrowed bytes together fit into
///   `memory`; 0 if no k does
std::int64_t blocks_a_unit(std::int64_t memory, std::int64_t blocks, std::int64_t block,
                           std::int64_t root, std::int64_t W);
