#include "your_own_model_exercise.h"

void merge(std::span<float> /*base*/, std::span<const float> /*lora_A*/,
           std::span<const float> /*lora_B*/, std::int64_t /*in*/, float /*scale*/) {
  // TODO(lesson 22): roughly 8 lines. The width is the size of lora_A divided by `in`.
}
