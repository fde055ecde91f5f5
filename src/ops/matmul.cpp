#include "ops/matmul.h"

#include <algorithm>

#include "ops/gemm.h"
#include "ops/operands.h"

namespace nanofsdp::ops {

namespace {

// The cost with that of `count` products of matrices with sides N, M and K.
Cost with_products(Cost cost, int count, const Tensor& nm, const Tensor& nk, const Tensor& weight) {
  const std::int64_t N = nm.dim(0), M = nm.dim(1), K = nk.dim(1);
  cost.products = 2.0 * count * static_cast<double>(N * M) * static_cast<double>(K);
  cost.narrowest = static_cast<double>(std::min({N, M, K}));
  cost.bfloat16 = weight.dtype() == DType::bfloat16;
  return cost;
}

}  // namespace

Cost cost(const MatmulForward& a) {
  return with_products(moves({a.x, a.weight, a.bias}, {a.y}), 1, a.y, a.x, a.weight);
}

Cost cost(const MatmulBackward& a) {
  const bool dx = !a.dx.empty(), dweight = !a.dweight.empty(), dbias = !a.dbias.empty();
  Cost cost = moves({a.dy, dx ? a.weight : a.x, a.dweight, a.dbias}, {a.dx, a.dweight, a.dbias});
  if (dx && dweight) cost.read += moves({a.dy, a.x}, {}).read;
  if (dbias) cost.read += moves({a.dy}, {}).read;
  cost.launches = dx + dweight + dbias;
  return with_products(cost, dx + dweight, a.dy, a.x, a.weight);
}

void matmul(Stream& stream, const MatmulForward& a) {
  const Require require(stream, a.x);
  require.rank("matmul: x", a.x, 2);
  const std::int64_t N = a.x.dim(0), K = a.x.dim(1), M = a.weight.dim(0);
  require.parameter("matmul: weight", a.weight, {M, K});
  if (!a.bias.empty()) require.parameter("matmul: bias", a.bias, {M});
  require("matmul: y", a.y, {N, M});

  enqueue(stream, a, [&stream, a, N, M] {
    if (!a.bias.empty()) {
      const float* bias = a.bias.f32();
      float* y = a.y.f32();
      stream.parallel_for(N, grain_of(M),
                          [&](std::int64_t n) { std::copy(bias, bias + M, y + n * M); });
    }
    gemm(stream, Form::nt, matrix(a.x), matrix(a.weight), matrix(a.y),
         a.bias.empty() ? Write::assign : Write::add);
  });
}

void matmul(Stream& stream, const MatmulBackward& a) {
  const Require require(stream, a.x);
  require.rank("matmul: x", a.x, 2);
  const std::int64_t N = a.x.dim(0), K = a.x.dim(1), M = a.dy.dim(1);
  require("matmul: dy", a.dy, {N, M});
  require.parameter("matmul: weight", a.weight, {M, K});
  if (!a.dx.empty()) require("matmul: dx", a.dx, {N, K});
  if (!a.dweight.empty()) require("matmul: dweight", a.dweight, {M, K}, DType::float32);
  if (!a.dbias.empty()) require("matmul: dbias", a.dbias, {M}, DType::float32);

  enqueue(stream, a, [&stream, a, N, M] {
    const Matrix dy = matrix(a.dy);
    if (!a.dx.empty()) gemm(stream, Form::nn, dy, matrix(a.weight), matrix(a.dx), Write::assign);
    if (!a.dweight.empty()) gemm(stream, Form::tn, dy, matrix(a.x), matrix(a.dweight), Write::add);
    if (!a.dbias.empty()) {
      float* dbias = a.dbias.f32();
      // The threads share the features, so each sum adds the rows in order.
      stream.parallel_for(M, grain_of(N), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = 0; n < N; ++n) {
          const float* row = dy.data + n * M;
          for (std::int64_t m = begin; m < end; ++m) dbias[m] += row[m];
        }
      });
    }
  });
}

void take_fastest_products(Stream& stream, const std::string& file) {
  NANOFSDP_RETURN_ON_CUDA(stream.device(), take_fastest_products(stream, file));
}

}  // namespace nanofsdp::ops
