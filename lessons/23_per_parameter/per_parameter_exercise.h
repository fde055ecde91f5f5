#pragma once

#include <cstdint>

/// A matrix in the buffer of a collective.
struct InBuffer {
  std::int64_t rows, columns;  ///< sizes of the matrix
  std::int64_t begin;          ///< the element of each shard at which its chunk begins
  std::int64_t shard_numel;    ///< elements of a shard; the buffer is the shards of all ranks
};

/// The exercise of lesson 23: where a row of a matrix lies, after FSDP2 has cut it for W ranks.
///
/// @param i a row of the matrix, 0 <= i < p.rows
/// @return where it begins in the buffer, in elements
std::int64_t place_of_row(std::int64_t i, const InBuffer& p, std::int64_t W);
