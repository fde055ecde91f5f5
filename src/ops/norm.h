#pragma once

#include <algorithm>
#include <cstdint>

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Sums of squares, added up in double precision: a float32 sum over a flat parameter would
/// lose digits.
///
///     out[(offset + i) / part] += x[i]^2
///
/// The operator cuts each part into blocks of a fixed length and adds them in order. So the bits of
/// a sum depend on the part alone: not on the number of threads, and not on the parts beside it.
///
/// Twins: norm.cpp (a plain loop), norm.cu (CUDA: a block of threads for each block of x). Each
/// twin adds in an order of its own, which is the same on every run and every GPU. The twins agree
/// within 1e-13.

/// Adds the sum of x[i]^2 to `out`, or the sum of each part to its own element of `out`.
struct SquaredNorm {
  Tensor x{};                     ///< in   any shape, float32
  Tensor out{};                   ///< in, out  [parts], float64, added to
  std::int64_t part = INT64_MAX;  ///< elements of a part; by default x is one part
  std::int64_t offset = 0;  ///< elements of the first part that lie before x, fewer than `part`

  /// The elements of x that lie in part k, as a flat tensor.
  Tensor in_part(std::int64_t k) const {
    const std::int64_t begin = std::max<std::int64_t>(0, k * part - offset);
    return x.slice(begin, std::min(x.numel() - begin, (k + 1) * part - offset - begin));
  }
};

/// The norm of a whole, from sums of squares of its parts, and the coefficient that clips it
/// (torch.nn.utils.clip_grad_norm_):
///
///     norm = sqrt(squares[0] + squares[1] + ...)    coefficient = min(1, max_norm / (norm + 1e-6))
struct ClipCoefficient {
  Tensor squares{};      ///< in   [n], float64, summed in order
  double max_norm = 0;   ///< 0 or less: coefficient 1
  Tensor norm{};         ///< out  [1], float32
  Tensor coefficient{};  ///< out  [1], float32
};

/// Each element costs a square and a sum.
inline Cost cost(const SquaredNorm& a) { return moves({a.x}, {a.out}, 2); }
/// Each square costs a sum.
inline Cost cost(const ClipCoefficient& a) { return moves({a.squares}, {a.coefficient}, 1); }

/// Enqueues the operator on `stream`.
/// @throws ShapeError naming the operand that does not fit
void squared_norm(Stream& stream, const SquaredNorm& a);
/// @copydoc squared_norm()
void clip_coefficient(Stream& stream, const ClipCoefficient& a);

}  // namespace nanofsdp::ops
