#include "your_own_model_exercise.h"

void merge(std::span<float> /*W*/, std::span<const float> /*A*/, std::span<const float> /*B*/,
           std::int64_t /*in*/, float /*scale*/) {
  // TODO(lesson 22): roughly 8 lines. The rank is the size of A divided by `in`.
}
