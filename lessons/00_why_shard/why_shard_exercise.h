#pragma once

#include <cstdint>

/// A model of equal blocks. Each block is a unit, and all other parameters form the root unit.
struct Model {
  std::int64_t blocks;  ///< at least 1
  std::int64_t block;   ///< parameters of a block, at least 1
  std::int64_t root;    ///< parameters of the root, at least 1; a block may be smaller or larger
};

/// The exercise of lesson 00: how many ranks does a model need?
///
/// Training is in float32, with Adam, as in the lesson. Each unit is cut by itself into W shards of
/// equal size: a unit of 7 parameters has shards of 4 on 2 ranks. A rank keeps its shards of all
/// units, and borrows what the table of the lesson shows. The borrowed memory is a place of its
/// own, in which a unit is complete: the rank's shard is there once more. We do not count padding
/// there: a unit of 7 parameters takes 7 floats, and 7 more for its gradient.
///
/// @param memory bytes of each rank, at least 0
/// @return the smallest W for which the memory is enough in every moment of a step, or 0 if no W is
///   large enough
std::int64_t fewest_ranks(const Model& model, std::int64_t memory);
