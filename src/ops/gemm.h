#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief The one place behind every matrix product of the CPU operators. Internal to ops.
///
///     nn: C = A B        nt: C = A B^T        tn: C = A^T B        each also as C += ...
///
/// Matrices are row-major. They are plain pointers with a row stride, so that a head can be read
/// where it lies among other heads. gemm packs the operands in the order in which the micro-kernel
/// reads them, one block at a time that fits in a cache (Goto and van de Geijn 2008). The bits of a
/// row depend only on its own values and on the other operand: not on the other rows, not on the
/// number of threads, and not on where anything lies in memory.

/// A matrix in memory that it does not own: element (i, j) is data[i * stride + j].
struct Matrix {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next, at least cols

  Matrix row_range(std::int64_t begin, std::int64_t end) const {
    return {data + begin * stride, end - begin, cols, stride};
  }
  Matrix col_range(std::int64_t begin, std::int64_t end) const {
    return {data + begin, rows, end - begin, stride};
  }
};

/// The elements of a tensor of two dimensions.
inline Matrix matrix(const Tensor& x) { return {x.f32(), x.dim(0), x.dim(1), x.dim(1)}; }

/// Which operand is read transposed: none (nn), the second (nt) or the first (tn).
enum class Form { nn, nt, tn };

/// Whether gemm replaces the elements that C holds, or adds to them.
enum class Write { assign, add };

/// Computes on the calling thread. C overlaps neither A nor B.
void gemm(Form form, const Matrix& a, const Matrix& b, const Matrix& c, Write write);

/// Computes on the threads of `stream`, which share C. Called from work inside the stream.
void gemm(Stream& stream, Form form, const Matrix& a, const Matrix& b, const Matrix& c,
          Write write);

}  // namespace nanofsdp::ops
