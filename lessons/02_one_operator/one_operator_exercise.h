#pragma once

#include <span>

/// What layer norm's backward knows of R rows of C elements; rows lie one behind the other.
struct Known {
  std::span<const float> dy;    ///< [R * C] the gradient of y
  std::span<const float> x;     ///< [R * C] what forward got
  std::span<const float> mean;  ///< [R] what forward kept
  std::span<const float> rstd;  ///< [R]
};

/// The exercise of lesson 02: the gradient of the weight, y = (x - mean) * rstd * weight.
///
/// @param dweight [C]; the gradient is added to what is there
void add_weight_gradient(const Known& known, std::span<float> dweight);
