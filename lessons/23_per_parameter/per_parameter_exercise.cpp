#include "per_parameter_exercise.h"

std::int64_t begin_of(const Matrix& p, std::int64_t end, std::int64_t s) {
  // TODO(lesson 23): roughly 3 lines. This is right if no cut falls into the matrix.
  return s > 0 && p.rows > 0 ? end : 0;
}
