#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "25_whole_matrices/whole_groups.h"

/// @file
/// @brief The ranks take turns: which rank orthogonalises which matrix.

namespace lesson {

/// A matrix that Muon updates.
struct Matrix {
  std::size_t parameter;  ///< its number in its unit
  double work;            ///< k m n, where the matrix is [m, n] and k is the smaller of both
  int rank = 0;           ///< the rank in a shard group whose turn it is
};

//! [turns]
/// Shares out the matrices of a unit: the one with the most work first, to the rank with the least
/// work so far. All ranks call it with the same matrices, so they agree without a message.
/// @param load the work of each rank, which grows from unit to unit
inline void share_out(std::vector<Matrix>& matrices, std::vector<double>& load) {
  std::ranges::stable_sort(matrices, std::greater(), &Matrix::work);
  for (Matrix& matrix : matrices) {
    const auto least = std::ranges::min_element(load);
    *least += matrix.work;
    matrix.rank = static_cast<int>(least - load.begin());
  }
}
//! [turns]

}  // namespace lesson
