#include "accumulate_and_clip_exercise.h"

double squares(const nanofsdp::fsdp::Layout& /*layout*/, int /*rank*/,
               std::span<const float> shard) {
  // TODO(lesson 16): roughly 8 lines.
  float sum = 0;
  for (const float g : shard) sum += g * g;
  return sum;
}
