#include "one_operator_exercise.h"

void add_weight_gradient(const Known& known, std::span<float> dweight) {
  // TODO(lesson 02): roughly 6 lines.
  for (std::size_t c = 0; c < dweight.size(); ++c) dweight[c] += known.dy[c];
}
