#include "ops/norm.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

using nanofsdp::cuda::check;

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

/// What the blocks of one kernel leave to the next, from the stream-ordered allocator: taking and
/// giving back are work on the stream like the kernels between them, so neither blocks the host,
/// and no other stream gets the memory in between. It comes from the device's pool, which is told
/// to keep what it has: of itself it would return all to the driver whenever the host waits. So the
/// first step pays for some megabytes, and every later call only takes a few kilobytes of them.
class Partials {
 public:
  Partials(Stream& stream, unsigned n) : stream_(nanofsdp::cuda::native(stream)) {
    int device = 0;
    cudaMemPool_t pool = nullptr;
    std::uint64_t keep = UINT64_MAX;
    check(cudaGetDevice(&device), "asking for the device");
    check(cudaDeviceGetDefaultMemPool(&pool, device), "asking for its pool of memory");
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "keeping memory");
    check(cudaMallocAsync(&memory_, n * sizeof(double), stream_), "memory for partial sums");
  }
  ~Partials() { cudaFreeAsync(memory_, stream_); }
  Partials(const Partials&) = delete;
  Partials& operator=(const Partials&) = delete;

  double* data() const { return static_cast<double*>(memory_); }

 private:
  cudaStream_t stream_;
  void* memory_ = nullptr;
};

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
  const Partials partials(stream, blocks);
  launch(stream, blocks, kThreads, sum_of_squares, a.x.f32(), n, partials.data(), out);
  launch(stream, 1, kThreads, add_up<double>, partials.data(), blocks, out);
}

void clip_coefficient(Stream& stream, const ClipCoefficient& a) {
  launch(stream, 1, 1, clip, a.squares.data<double>(), a.squares.numel(), a.max_norm, a.norm.f32(),
         a.coefficient.f32());
}

}  // namespace nanofsdp::ops::cuda
