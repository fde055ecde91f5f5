#include "per_parameter_exercise.h"

std::int64_t place_of_row(std::int64_t i, const InBuffer& p, std::int64_t W) {
  const std::int64_t share = (p.rows + W - 1) / W;  // rows for each rank, until no row is left
  const std::int64_t rank = i / share;
  return rank * p.shard_numel + p.begin + i % share * p.columns;
}
