#include "one_operator_exercise.h"

void add_weight_gradient(const Known& known, std::span<float> dweight) {
  const std::size_t C = dweight.size();
  for (std::size_t r = 0; r < known.mean.size(); ++r) {
    for (std::size_t c = 0; c < C; ++c) {
      const float n = (known.x[r * C + c] - known.mean[r]) * known.rstd[r];
      dweight[c] += known.dy[r * C + c] * n;  // the rows share the weight, so their parts add up
    }
  }
}
