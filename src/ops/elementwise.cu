#include "ops/elementwise.h"

#include <algorithm>

#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

struct Multiply {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};

// Each operator below computes element i of a result. (Lambdas would need an extra flag of nvcc.)

template <class T>
struct FillOf {
  T value;
  __device__ T operator()(std::int64_t) const { return value; }
};

struct ArangeOf {
  std::int64_t period;
  __device__ std::int32_t operator()(std::int64_t i) const {
    return static_cast<std::int32_t>(i % period);
  }
};

template <class T>
struct DropoutOf {
  const T* x;
  std::uint64_t row;
  std::uint32_t threshold;
  float factor;
  __device__ T operator()(std::int64_t i) const {
    // The element is also read if it is dropped, so there is no branch.
    const float survivor = widen(x[i]) * factor;
    return narrow_to<T>(keep(row, static_cast<std::uint32_t>(i), threshold) ? survivor : 0.0f);
  }
};

// Blocks along x share a row of n elements, and blocks along y share the rows. So a thread hashes
// the key once for all its elements of a row, and needs no division to find them.
template <class T>
__global__ void drop(const T* x, T* y, std::int64_t rows, std::int64_t n, DropoutKey key,
                     std::uint32_t threshold, float factor) {
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    make_each(blockIdx.x * kStretch, n, y + row * n,
              DropoutOf<T>{x + row * n, row_key(key, row), threshold, factor});
  }
}

}  // namespace

void run_on_gpu(Stream& stream, const Add& a) { map(stream, a.out, Sum{}, a.a, a.b); }

void run_on_gpu(Stream& stream, const Scale& a) { map(stream, a.x, Multiply{a.factor}, a.x, a.x); }

void run_on_gpu(Stream& stream, const Fill& a) {
  if (a.x.dtype() == DType::float64) {
    elementwise(stream, a.x.numel(), a.x.data<double>(), FillOf<double>{a.value});
  } else if (a.x.dtype() == DType::bfloat16) {
    elementwise(stream, a.x.numel(), a.x.data<bfloat16>(), FillOf<bfloat16>{to_bfloat16(a.value)});
  } else {
    elementwise(stream, a.x.numel(), a.x.f32(), FillOf<float>{a.value});
  }
}

void run_on_gpu(Stream& stream, const Arange& a) {
  elementwise(stream, a.x.numel(), a.x.data<std::int32_t>(), ArangeOf{a.period});
}

void run_on_gpu(Stream& stream, const Dropout& a) {
  // Enough blocks to fill any GPU. If there are more rows, each block takes several.
  constexpr std::int64_t kRowsAtOnce = 1024;
  const std::int64_t rows = a.x.shape().rank() > 0 ? a.x.dim(0) : 1;
  const std::int64_t n = a.x.numel() / rows;
  const auto along_y = static_cast<unsigned>(std::min(rows, kRowsAtOnce));
  for_type_of(a.x, [&]<class T>(T) {
    launch(stream, dim3(blocks_for(n, kStretch), along_y), kThreads, drop<T>, a.x.data<T>(),
           a.y.data<T>(), rows, n, a.key, drop_threshold(a.p), 1 / (1 - a.p));
  });
}

}  // namespace nanofsdp::ops
