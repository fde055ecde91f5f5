#pragma once

#include <cstdint>

/// A matrix that a unit has.
struct Matrix {
  std::int64_t rows, columns;  ///< its sizes
};

/// The exercise of lesson 23: where a matrix begins in the layout row_aligned. Its first row stands
/// at `end` or behind it. The first cut behind `end` must not split a row. (The library chooses s
/// so that then the cuts behind that one split no row either.)
///
/// @param end where the parameters before it end, among all elements of the buffer
/// @param s elements of a shard: the cuts are at s, 2s, 3s, ...
/// @return the first element of the buffer at which the matrix may begin
std::int64_t begin_of(const Matrix& p, std::int64_t end, std::int64_t s);
