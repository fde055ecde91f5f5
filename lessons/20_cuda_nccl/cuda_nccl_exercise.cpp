#include "cuda_nccl_exercise.h"

float block_sum(std::span<const float> /*x*/, int /*threads*/) {
  // TODO(lesson 20): roughly 7 lines.
  return 0;
}
