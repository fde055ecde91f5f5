#include "per_parameter_exercise.h"

std::int64_t begin_of(const Matrix& p, std::int64_t end, std::int64_t s) {
  const std::int64_t to_cut = s - end % s;  // elements before the next cut
  if (p.rows * p.columns <= to_cut) return end;
  return end + to_cut % p.columns;  // whole rows end at the cut
}
