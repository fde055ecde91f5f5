#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// The exercise of lesson 01: the loss of one prediction, and how each logit changes it. Both must
/// also be right for logits whose exponential is too large for a double.
///
/// @param logits one for each token that might come next; at least one, of any finite values
/// @param target the token that does come next, an index into `logits`
/// @return log(sum over i of exp(logits[i])) - logits[target]
double loss_of(std::span<const float> logits, std::size_t target);

/// @return for each logit the derivative of the loss with respect to it: if the logit grows by a
///   tiny d, the loss grows by d times this number
std::vector<double> slopes_of(std::span<const float> logits, std::size_t target);
