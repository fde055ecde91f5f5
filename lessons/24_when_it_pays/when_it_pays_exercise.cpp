#include "when_it_pays_exercise.h"

std::int64_t tokens_to_hide(double /*n*/, double flop_per_s, double bytes_per_s, double /*step*/,
                            int /*element*/, int /*W*/) {
  // TODO(lesson 24): roughly 4 lines. This is right for 2 bytes, many ranks and no latency.
  return static_cast<std::int64_t>(flop_per_s / bytes_per_s);
}
