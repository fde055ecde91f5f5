#include <algorithm>
#include <cmath>

#include "first_loss_exercise.h"

double loss_of(std::span<const float> logits, std::size_t target) {
  // Subtracting one number from every logit does not change the loss. We subtract the largest: then
  // one exponent is 0 and none is larger, so the sum lies between 1 and V.
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits[target];
}

std::vector<double> slopes_of(std::span<const float> logits, std::size_t target) {
  // The derivative of log(sum) is exp(z) / sum: the probability of the token. It is also the
  // exponential of minus the loss that this token would have, which is never positive.
  std::vector<double> slopes(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) slopes[i] = std::exp(-loss_of(logits, i));
  slopes[target] -= 1;  // of - logits[target]
  return slopes;
}
