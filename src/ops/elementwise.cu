#include "ops/elementwise.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

struct Multiply {
  float factor;
  __device__ float operator()(float x, float) const { return x * factor; }
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

// All elements of a row have one key, which each thread hashes once.
template <class T>
struct DropoutOf {
  const T* x;
  std::int64_t n;  // elements of a row
  DropoutKey key;
  std::uint32_t threshold;
  float factor;
  __device__ T operator()(std::int64_t row, std::int64_t i) const {
    // The element is also read if it is dropped, so there is no branch.
    const float survivor = widen(x[row * n + i]) * factor;
    const bool kept = keep(row_key(key, row), static_cast<std::uint32_t>(i), threshold);
    return narrow_to<T>(kept ? survivor : 0.0f);
  }
};

}  // namespace

void run_on_gpu(Stream& stream, const Add& a) { map(stream, a.out, Sum{}, a.a, a.b); }

void run_on_gpu(Stream& stream, const Scale& a) { map(stream, a.x, Multiply{a.factor}, a.x, a.x); }

void run_on_gpu(Stream& stream, const Fill& a) {
  const auto fill = [&]<class T>(T value) {
    elementwise(stream, a.x.numel(), a.x.data<T>(), FillOf<T>{value});
  };
  if (a.x.dtype() == DType::float64) return fill(double{a.value});
  a.x.dtype() == DType::bfloat16 ? fill(to_bfloat16(a.value)) : fill(a.value);
}

void run_on_gpu(Stream& stream, const Arange& a) {
  elementwise(stream, a.x.numel(), a.x.data<std::int32_t>(), ArangeOf{a.period});
}

void run_on_gpu(Stream& stream, const Dropout& a) {
  const std::int64_t rows = a.x.shape().rank() > 0 ? a.x.dim(0) : 1;
  const std::int64_t n = a.x.numel() / rows;
  for_type_of(a.x, [&]<class T>(T) {
    rowwise(stream, {rows * n, n, n}, a.y.data<T>(),
            DropoutOf<T>{a.x.data<T>(), n, a.key, drop_threshold(a.p), 1 / (1 - a.p)});
  });
}

}  // namespace nanofsdp::ops
