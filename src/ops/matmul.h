#pragma once

#include <string>

#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief The room `ops`: the operators, each for the CPU (.cpp) and for CUDA (.cu). This one is
/// the linear map of a layer, forward and backward.
///
/// Comes in: tensors and a stream. Goes out: numbers in other tensors of the same device, which the
/// caller owns. No operator knows of models, ranks or shards.
///
/// PyTorch's layout: the weight is stored [out, in], one row an output feature.
///
///     y = x * weight^T + bias
///     dx = dy * weight        dweight += dy^T * x        dbias += sum over rows of dy
///
/// The same input gives the same bits on every run with the same number of threads, wherever the
/// operands lie in memory. On a GPU there are two cases, for which cuBLAS takes different kernels:
/// all addresses that are multiples of 16 bytes, as in training, share one set of bits, and all
/// other addresses share another.
///
/// On a GPU all of x, y, dy, dx, weight and bias may be bfloat16: tensor cores multiply, sums run
/// in float32, and y and dx are rounded once. dweight and dbias are always float32: no term is
/// rounded before it is added to them. If only `weight` and `bias` are bfloat16, x and dy are
/// rounded for the product, y and dx are float32, and dbias sums the unrounded dy. The stream keeps
/// room for the rounded copies of the largest such x and dy so far. The ledger does not count this
/// room, which takes 2 bytes for each element.
///
/// Twins: matmul.cpp (gemm.h), matmul.cu (CUDA, cuBLASLt).

/// Shapes: N rows, K features in, M features out. `bias` may be empty.
struct MatmulForward {
  Tensor x{};       ///< in   [N, K]
  Tensor weight{};  ///< in   [M, K], on a GPU also bfloat16, as x or narrower
  Tensor bias{};    ///< in   [M] or empty, of the weight's dtype
  Tensor y{};       ///< out  [N, M], written
};

/// The shapes are those of the forward pass. `dbias` may be empty.
struct MatmulBackward {
  Tensor dy{};       ///< in   [N, M]
  Tensor x{};        ///< in   [N, K]
  Tensor weight{};   ///< in   [M, K], on a GPU also bfloat16, as x or narrower
  Tensor dx{};       ///< out  [N, K], written; empty if it is not needed
  Tensor dweight{};  ///< in, out  [M, K], added to; empty for a frozen weight
  Tensor dbias{};    ///< in, out  [M] or empty, added to
};

/// Forward costs 2 N M K operations.
Cost cost(const MatmulForward& a);
/// Backward costs 2 N M K operations for dx, and 2 N M K for dweight.
Cost cost(const MatmulBackward& a);

/// Enqueues the operator on `stream`.
/// @throws ShapeError naming the operand that does not fit
void matmul(Stream& stream, const MatmulForward& a);

/// @copydoc matmul(Stream&, const MatmulForward&)
void matmul(Stream& stream, const MatmulBackward& a);

/// On a GPU cuBLAS has several kernels for a product, and the bits depend on which one is taken. By
/// default it is the kernel that cuBLAS names first, which is the same on all ranks and in every
/// run. After this call it is the kernel that `file` names for the product. For a product that the
/// file does not name, eight kernels are timed once, and the fastest is added to the file. If
/// several ranks time a product, all of them take what the first has added. So all runs with one
/// file have the same bits. On a CPU nothing happens.
/// @param stream whose products these are, before the first of them
void take_fastest_products(Stream& stream, const std::string& file);

namespace cuda {
void take_fastest_products(Stream& stream, const std::string& file);
}  // namespace cuda

}  // namespace nanofsdp::ops
