#include "one_operator_exercise.h"

void add_weight_gradient(const Known& known, std::span<float> dweight) {
  // TODO(lesson 02): roughly 6 lines.
  for (std::size_t i = 0; i < dweight.size(); ++i) dweight[i] += known.dy[i];
}
