#pragma once

#include <span>

/// The operands of layer norm's backward, for rows of n elements. Row i begins at element i * n.
struct Known {
  std::span<const float> dy;    ///< [rows * n] slope of the loss with respect to y
  std::span<const float> x;     ///< [rows * n] forward's input
  std::span<const float> mean;  ///< [rows] of each row, as forward computed it
  std::span<const float> rstd;  ///< [rows] of each row: 1 / sqrt(variance + epsilon)
};

/// The exercise of lesson 02: the gradient of the weight, where y = (x - mean) * rstd * weight.
///
/// @param dweight [n]; add the gradient to the values that it has
void add_weight_gradient(const Known& known, std::span<float> dweight);
