#pragma once

#include <algorithm>
#include <cmath>

#include "base/buffer.h"
#include "base/transfer.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"

/// @file
/// @brief The mathematics of Muon, which knows nothing of ranks.

namespace lesson {

using namespace nanofsdp;

/// y = a y + b x. It overwrites x with b x.
inline void mix(Stream& stream, Tensor y, double a, Tensor x, double b) {
  ops::scale(stream, {.x = y, .factor = static_cast<float>(a)});
  ops::scale(stream, {.x = x, .factor = static_cast<float>(b)});
  ops::accumulate(stream, {.in = x, .out = y});
}

//! [orthogonalise]
/// Five steps of the iteration of Newton and Schulz, in float32. They bring all singular values of
/// X near 1.
/// @param X [m, n], in, out
/// @param room for 3 m n elements, at least 2
inline void orthogonalise(Stream& stream, Tensor X, const Buffer& room) {
  const std::int64_t m = X.dim(0), n = X.dim(1), k = std::min(m, n);
  const Tensor A = room.tensor({k, k}), B = room.tensor({k, k}, DType::float32, 4 * k * k);
  const Tensor Y = room.tensor({m, n}, DType::float32, 8 * k * k);
  const Tensor square = room.tensor({1}, DType::float64);
  ops::fill(stream, {.x = square, .value = 0});
  ops::squared_norm(stream, {.x = X, .out = square});
  const double norm = std::sqrt(item<double>(stream, square));
  ops::scale(stream, {.x = X, .factor = static_cast<float>(1 / std::max(norm, 1e-7))});
  for (int step = 0; step < 5; ++step) {
    ops::fill(stream, {.x = A, .value = 0});
    if (m <= n)  // A = X X^T, else A = X^T X
      ops::matmul(stream, ops::MatmulForward{.x = X, .weight = X, .y = A});
    else
      ops::matmul(stream, ops::MatmulBackward{.dy = X, .x = X, .weight = B, .dweight = A});
    ops::matmul(stream, ops::MatmulBackward{.dy = A, .x = A, .weight = A, .dx = B});  // B = A A
    mix(stream, B, 2.0315, A, -4.7750);
    const Tensor left = m <= n ? B : X, right = m <= n ? X : B;  // Y = B X, or Y = X B
    ops::matmul(stream, ops::MatmulBackward{.dy = left, .x = X, .weight = right, .dx = Y});
    mix(stream, X, 3.4445, Y, 1);
  }
}
//! [orthogonalise]

}  // namespace lesson
