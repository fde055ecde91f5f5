#include "ops/norm.h"

#include <algorithm>

#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

constexpr std::int64_t kBlock = 16384;

// Each block sums a part of x whose length is the same on every GPU, so the bits depend on that
// part alone. The square of a float32 is exact in double. If there is only one block, it adds to
// `out` itself; otherwise blocks write their sums for add_up().
__global__ void sum_of_squares(const float* x, std::int64_t n, std::int64_t part,
                               std::int64_t offset, unsigned blocks, double* partial, double* out) {
  const std::int64_t k = blockIdx.x / blocks;
  const std::int64_t begin = k == 0 ? 0 : k * part - offset, end = min(n, (k + 1) * part - offset);
  const std::int64_t first = begin + blockIdx.x % blocks * kBlock;
  const std::int64_t count = max(std::int64_t{0}, min(kBlock, end - first));
  const double sum = block_sum<double>(static_cast<int>(count), [=](int i) {
    const double value = x[first + i];
    return value * value;
  });
  if (threadIdx.x > 0) return;
  if (blocks == 1) {
    out[k] += sum;
  } else {
    partial[blockIdx.x] = sum;
  }
}

// The sums of the blocks of one kernel, which the next kernel adds up.
struct Partials : Scratch {};

// One thread is enough, because there is only one square for each rank.
__global__ void clip(const double* squares, std::int64_t n, double max_norm, float* norm_out,
                     float* coefficient) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += squares[i];
  const double norm = sqrt(sum);
  const double limit = max_norm <= 0 ? 1 : max_norm / (norm + 1e-6);
  *norm_out = static_cast<float>(norm);
  // If the limit is NaN, the coefficient is NaN too.
  *coefficient = static_cast<float>(limit > 1 ? 1 : limit);
}

}  // namespace

void run_on_gpu(Stream& stream, const SquaredNorm& a) {
  const auto parts = static_cast<unsigned>(a.out.numel());
  const unsigned blocks = blocks_for(std::min(a.x.numel(), a.part), kBlock);  // blocks of a part
  double* const out = a.out.data<double>();
  double* const partial = scratch<Partials, double>(stream, blocks > 1 ? parts * blocks : 0);
  launch(stream, parts * blocks, kThreads, sum_of_squares, a.x.f32(), a.x.numel(), a.part, a.offset,
         blocks, partial, out);
  if (blocks > 1) launch(stream, parts, kThreads, add_up<double>, partial, blocks, out);
}

void run_on_gpu(Stream& stream, const ClipCoefficient& a) {
  launch(stream, 1, 1, clip, a.squares.data<double>(), a.squares.numel(), a.max_norm, a.norm.f32(),
         a.coefficient.f32());
}

}  // namespace nanofsdp::ops
