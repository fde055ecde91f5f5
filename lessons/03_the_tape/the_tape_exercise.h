#pragma once

#include <span>
#include <vector>

/// The exercise of lesson 03: when each gradient is complete.
///
/// @param uses the parameters that forward used, in its order, each a number; one that is used
///   twice stands there twice
/// @return every parameter once, in the order in which backward completes their gradients
std::vector<int> completion_order(std::span<const int> uses);
