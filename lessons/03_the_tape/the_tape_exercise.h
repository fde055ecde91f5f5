#pragma once

#include <span>
#include <vector>

/// The exercise of lesson 03: in which order are the gradients complete?
///
/// A gradient is complete when backward has visited all uses of its parameter.
///
/// @param uses the numbers of the parameters in the order in which forward used them; a parameter
///   that forward used twice stands there twice
/// @return every parameter once, in the order in which backward completes their gradients
std::vector<int> completion_order(std::span<const int> uses);
