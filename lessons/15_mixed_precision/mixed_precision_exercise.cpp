#include "mixed_precision_exercise.h"

using nanofsdp::bfloat16;

void average([[maybe_unused]] std::span<const std::vector<bfloat16>> ranks,
             [[maybe_unused]] std::span<float> out) {
  // TODO(lesson 15): roughly 5 lines.
}
