#include "two_dimensions_exercise.h"

namespace {

// y = M x, of a matrix with x.size() columns.
std::vector<float> times(const std::vector<float>& M, const std::vector<float>& x, int rows) {
  std::vector<float> y(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t k = 0; k < x.size(); ++k) y[i] += M[i * x.size() + k] * x[k];
  }
  return y;
}

// x = M^T y, of a matrix with y.size() rows.
std::vector<float> transposed(const std::vector<float>& M, const std::vector<float>& y,
                              int columns) {
  std::vector<float> x(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t k = 0; k < x.size(); ++k) x[k] += M[i * x.size() + k] * y[i];
  }
  return x;
}

}  // namespace

std::vector<float> forward(const Parts& parts, const std::vector<float>& x, const AddUp& add_up) {
  std::vector<float> z = times(parts.B, times(parts.A, x, parts.hidden), parts.out);
  add_up(z);
  return z;
}

std::vector<float> backward(const Parts& parts, const std::vector<float>& dz, const AddUp& add_up) {
  std::vector<float> dx = transposed(parts.A, transposed(parts.B, dz, parts.hidden), parts.in);
  add_up(dx);
  return dx;
}

std::int64_t bytes_sent(std::int64_t tokens, std::int64_t C, std::int64_t T, bool sequence) {
  const auto of = [T](std::int64_t elements) { return 4 * elements / T * (T - 1); };
  if (!sequence) return 4 * 2 * of(tokens * C);
  return (8 + 2) * of(tokens * C) + 2 * of(2 * C);
}
