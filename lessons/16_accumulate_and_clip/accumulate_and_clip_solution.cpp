#include "accumulate_and_clip_exercise.h"

double squares(const nanofsdp::fsdp::Layout& layout, int rank, std::span<const float> shard) {
  double sum = 0;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const nanofsdp::fsdp::Range piece = layout.piece(i, rank).in_shard;
    for (std::int64_t e = piece.begin; e < piece.end; ++e) {
      const double g = shard[static_cast<std::size_t>(e)];
      sum += g * g;
    }
  }
  return sum;
}
