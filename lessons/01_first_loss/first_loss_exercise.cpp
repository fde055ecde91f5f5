#include "first_loss_exercise.h"

#include <algorithm>
#include <cmath>

double loss_of(std::span<const float> logits, std::size_t target) {
  // TODO(lesson 01): roughly 5 lines.
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  return std::log(sum) - logits[target];
}

std::vector<double> slopes_of(std::span<const float> logits, std::size_t /*target*/) {
  // Roughly 5 lines.
  return std::vector<double>(logits.size());
}
