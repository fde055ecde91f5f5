#include "per_parameter_exercise.h"

std::int64_t place_of_row(std::int64_t i, const InBuffer& p, std::int64_t W) {
  // TODO(lesson 23): roughly 3 lines. This is right on one rank.
  return W > 0 ? p.begin + i * p.columns : 0;
}
