#include "ops/matmul.h"

#include "ops/gemm.cuh"
#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

// A block sums eight neighbouring columns: of each row they are one sector of memory, so nothing is
// read in vain. Its rows of threads take turns at the rows.
constexpr unsigned kColumns = 8;
constexpr unsigned kTurns = 64;

__global__ void add_sums_of_columns(const float* x, std::int64_t rows, std::int64_t cols,
                                    float* sums) {
  __shared__ float parts[kTurns][kColumns];
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0;
  if (col < cols) {
    for (std::int64_t row = threadIdx.y; row < rows; row += kTurns) sum += x[row * cols + col];
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= cols) return;
  for (unsigned turn = 1; turn < kTurns; ++turn) sum += parts[turn][threadIdx.x];
  sums[col] += sum;
}

}  // namespace

void matmul(Stream& stream, const MatmulForward& a) {
  if (a.y.empty()) return;
  multiply(stream, Form::nt, matrix(a.x), matrix(a.weight), matrix(a.y), Write::assign,
           a.bias.empty() ? nullptr : a.bias.f32());
}

void matmul(Stream& stream, const MatmulBackward& a) {
  if (a.dy.empty()) return;
  const Matrix dy = matrix(a.dy);
  if (!a.dx.empty()) {
    multiply(stream, Form::nn, dy, matrix(a.weight), matrix(a.dx), Write::assign);
  }
  if (!a.dweight.empty()) {
    multiply(stream, Form::tn, dy, matrix(a.x), matrix(a.dweight), Write::add);
  }
  // cuBLAS could sum dy beside the product, but writes such sums, where dbias is added to.
  if (!a.dbias.empty()) {
    launch(stream, blocks_for(dy.cols, kColumns), dim3(kColumns, kTurns), add_sums_of_columns,
           dy.data, dy.rows, dy.cols, a.dbias.f32());
  }
}

}  // namespace nanofsdp::ops::cuda
