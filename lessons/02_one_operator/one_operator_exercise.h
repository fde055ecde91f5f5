#pragma once

#include <span>

/// What layer norm's backward gets, for R rows of C elements. Row r begins at element r * C.
struct Known {
  std::span<const float> dy;    ///< [R * C] slope of the loss with respect to y
  std::span<const float> x;     ///< [R * C] forward's input
  std::span<const float> mean;  ///< [R] of each row, as forward computed it
  std::span<const float> rstd;  ///< [R] of each row: 1 / sqrt(variance + epsilon)
};

/// The exercise of lesson 02: the gradient of the weight, where y = (x - mean) * rstd * weight.
///
/// @param dweight [C]; add the gradient to the values that it has
void add_weight_gradient(const Known& known, std::span<float> dweight);
