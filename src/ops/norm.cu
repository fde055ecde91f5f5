#include "ops/norm.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

constexpr std::int64_t kBlock = 16384;

// A fixed stretch of x for each block, on every GPU: the bits depend on x alone. The square of a
// float32 is exact in double. A block that is alone adds to out itself, the others leave their sums
// to add_up().
__global__ void sum_of_squares(const float* x, std::int64_t n, double* partial, double* out) {
  x += blockIdx.x * kBlock;
  const std::int64_t left = n - blockIdx.x * kBlock;
  const double sum = block_sum<double>(static_cast<int>(min(left, kBlock)), [=](int i) {
    const double value = x[i];
    return value * value;
  });
  if (threadIdx.x > 0) return;
  if (gridDim.x == 1) {
    *out += sum;
  } else {
    partial[blockIdx.x] = sum;
  }
}

// The sums of one kernel's blocks, for the next to add up.
struct Partials : Scratch {};

// One thread: a square for each rank is all there is.
__global__ void clip(const double* squares, std::int64_t n, double max_norm, float* norm_out,
                     float* coefficient) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += squares[i];
  const double norm = sqrt(sum);
  const double limit = max_norm > 0 ? max_norm / (norm + 1e-6) : 1;
  *norm_out = static_cast<float>(norm);
  *coefficient = static_cast<float>(limit > 1 ? 1 : limit);  // NaN is not above 1: it is handed on
}

}  // namespace

void squared_norm(Stream& stream, const SquaredNorm& a) {
  const std::int64_t n = a.x.numel();
  const unsigned blocks = blocks_for(n, kBlock);
  double* const out = a.out.data<double>();
  if (blocks <= 1) {
    launch(stream, blocks, kThreads, sum_of_squares, a.x.f32(), n, nullptr, out);
    return;
  }
  auto* const partial = static_cast<double*>(scratch<Partials>(stream, blocks * sizeof(double)));
  launch(stream, blocks, kThreads, sum_of_squares, a.x.f32(), n, partial, out);
  launch(stream, 1, kThreads, add_up<double>, partial, blocks, out);
}

void clip_coefficient(Stream& stream, const ClipCoefficient& a) {
  launch(stream, 1, 1, clip, a.squares.data<double>(), a.squares.numel(), a.max_norm, a.norm.f32(),
         a.coefficient.f32());
}

}  // namespace nanofsdp::ops::cuda
