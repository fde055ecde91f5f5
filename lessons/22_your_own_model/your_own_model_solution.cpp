#include "your_own_model_exercise.h"

void merge(std::span<float> base, std::span<const float> lora_A, std::span<const float> lora_B,
           std::int64_t in, float scale) {
  const std::int64_t width = std::ssize(lora_A) / in, out = std::ssize(base) / in;
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t j = 0; j < width; ++j) {
      for (std::int64_t i = 0; i < in; ++i) {
        base[o * in + i] += scale * lora_B[o * width + j] * lora_A[j * in + i];
      }
    }
  }
}
