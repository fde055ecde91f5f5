#include <cmath>

#include "when_it_pays_exercise.h"

std::int64_t tokens_to_hide(double n, double flop_per_s, double bytes_per_s, double step,
                            int element, int W) {
  const double collective = (W - 1) * (step + element * n / W / bytes_per_s);
  const double forward_of_a_token = 2 * n / flop_per_s;  // backward: both are twice as long
  return static_cast<std::int64_t>(std::ceil(collective / forward_of_a_token));
}
