#include "your_own_model_exercise.h"

void merge(std::span<float> W, std::span<const float> A, std::span<const float> B, std::int64_t in,
           float scale) {
  const std::int64_t rank = std::ssize(A) / in, out = std::ssize(W) / in;
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t r = 0; r < rank; ++r) {
      for (std::int64_t i = 0; i < in; ++i) {
        W[o * in + i] += scale * B[o * rank + r] * A[r * in + i];
      }
    }
  }
}
