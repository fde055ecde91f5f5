#include "deferred_init_exercise.h"

using nanofsdp::fsdp::Range;

Range kept([[maybe_unused]] std::span<const PlannedDraw> plan, [[maybe_unused]] int parameter,
           Range piece) {
  // TODO(lesson 12): roughly 6 lines.
  return piece;
}
