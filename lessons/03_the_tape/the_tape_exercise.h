#pragma once

#include <span>
#include <vector>

/// The exercise of lesson 03: in which order are the gradients complete?
///
/// Backward visits the uses from the last to the first. A gradient is complete when backward has
/// visited all uses of its parameter. Example: forward uses 0, 1, 0. Backward visits 0, 1, 0; the
/// gradient of 1 is complete after the second visit, that of 0 after the third. So the result is
/// {1, 0}.
///
/// @param uses the numbers of the parameters in the order in which forward used them; a parameter
///   that forward used twice stands there twice
/// @return every parameter once, in the order in which backward completes their gradients
std::vector<int> completion_order(std::span<const int> uses);
