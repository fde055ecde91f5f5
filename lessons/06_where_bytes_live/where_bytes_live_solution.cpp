#include "where_bytes_live_exercise.h"

std::int64_t largest_model(std::int64_t memory, std::int64_t whole, std::int64_t divided,
                           std::int64_t W) {
  // W parameters more cost a rank `whole` for each of them, and `divided` for its one.
  const std::int64_t groups = memory / (W * whole + divided);
  return W * groups;
}
