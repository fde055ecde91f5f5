#include "deferred_init_exercise.h"

using nanofsdp::fsdp::Range;

Range kept(std::span<const PlannedDraw> plan, int parameter, Range piece) {
  std::int64_t at = 0;      // place in the sequence where the draw begins
  std::int64_t begins = 0;  // place where the parameter's last draw so far begins
  for (const PlannedDraw& draw : plan) {
    if (draw.parameter == parameter) begins = at;
    at += draw.numel;
  }
  return {begins + piece.begin, begins + piece.end};
}
