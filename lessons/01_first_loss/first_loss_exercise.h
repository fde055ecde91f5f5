#pragma once

#include <cstddef>
#include <span>

/// The exercise of lesson 01: the loss of one prediction. It must also be right for logits whose
/// exponential is too large for a double.
///
/// @param logits one for each token that might come next; at least one, of any finite values
/// @param target the token that does come next, an index into `logits`
/// @return log(sum over i of exp(logits[i])) - logits[target]
double loss_of(std::span<const float> logits, std::size_t target);
