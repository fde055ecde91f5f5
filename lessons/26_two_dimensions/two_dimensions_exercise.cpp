#include "two_dimensions_exercise.h"

// TODO(lesson 26): roughly 15 lines for the first two functions, and 4 for the third one. These
// compute on one rank, and add up nothing.

std::vector<float> forward(const Parts& parts, const std::vector<float>& x,
                           const AddUp& /*add_up*/) {
  std::vector<float> z(static_cast<std::size_t>(parts.out));
  for (int h = 0; h < parts.hidden; ++h) {
    float y = 0;
    for (int i = 0; i < parts.in; ++i) y += parts.A[h * parts.in + i] * x[i];
    for (int o = 0; o < parts.out; ++o) z[o] += parts.B[o * parts.hidden + h] * y;
  }
  return z;
}

std::vector<float> backward(const Parts& parts, const std::vector<float>& /*dz*/,
                            const AddUp& /*add_up*/) {
  return std::vector<float>(static_cast<std::size_t>(parts.in));
}

std::int64_t bytes_sent(std::int64_t tokens, std::int64_t C, std::int64_t /*T*/,
                        bool /*sequence*/) {
  return 4 * tokens * C;
}
