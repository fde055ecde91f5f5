#include "collectives_exercise.h"

void ring_all_reduce([[maybe_unused]] int rank, [[maybe_unused]] int W,
                     [[maybe_unused]] std::span<float> x, [[maybe_unused]] Neighbours& ring) {
  // TODO(lesson 04): roughly 12 lines.
}
