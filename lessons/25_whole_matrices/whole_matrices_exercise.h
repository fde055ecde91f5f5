#pragma once

#include <cstdint>
#include <vector>

/// The exercise of lesson 25: the best assignment of matrices to ranks.
///
/// Longest first is quick, but not always best. This function finds an assignment in which the rank
/// with the most work has as little as possible. A rank must also have room for its matrices.
///
/// @param work     of each matrix, at least 1; at most 8 matrices
/// @param elements of each matrix, at least 1
/// @param W        ranks, 1 to 4
/// @param room     the largest sum of elements on one rank
/// @return the rank of each matrix, 0 to W - 1; empty if there is no assignment with enough room
std::vector<int> assign(const std::vector<std::int64_t>& work,
                        const std::vector<std::int64_t>& elements, int W, std::int64_t room);
