#include "base/cuda.h"
#include "ops/elementwise.h"
#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

/// Calls body(i) for every i < n.
template <class Body>
__global__ void for_each(std::int64_t n, Body body) {
  const std::int64_t i = global_thread();
  if (i < n) body(i);
}

template <class Body>
void each(Stream& stream, std::int64_t n, const Body& body) {
  launch(stream, blocks_for(n), kThreads, for_each<Body>, n, body);
}

struct AddBody {
  const float *a, *b;
  float* out;
  __device__ void operator()(std::int64_t i) const { out[i] = a[i] + b[i]; }
};

struct ScaleBody {
  float* x;
  float factor;
  __device__ void operator()(std::int64_t i) const { x[i] *= factor; }
};

template <class T>
struct FillBody {
  T* x;
  T value;
  __device__ void operator()(std::int64_t i) const { x[i] = value; }
};

struct ArangeBody {
  std::int32_t* x;
  std::int64_t period;
  __device__ void operator()(std::int64_t i) const { x[i] = static_cast<std::int32_t>(i % period); }
};

struct DropoutBody {
  const float* x;
  float* y;
  std::int64_t row_numel;
  DropoutKey key;
  std::uint32_t threshold;
  float factor;
  __device__ void operator()(std::int64_t i) const {
    const std::uint64_t row = row_key(key, i / row_numel);
    const auto element = static_cast<std::uint32_t>(i % row_numel);
    y[i] = keep(row, element, threshold) ? x[i] * factor : 0.0f;
  }
};

}  // namespace

void add(Stream& stream, const Add& a) {
  each(stream, a.out.numel(), AddBody{a.a.f32(), a.b.f32(), a.out.f32()});
}

void scale(Stream& stream, const Scale& a) {
  each(stream, a.x.numel(), ScaleBody{a.x.f32(), a.factor});
}

void fill(Stream& stream, const Fill& a) {
  if (a.x.dtype() == DType::float64) {
    each(stream, a.x.numel(), FillBody<double>{a.x.data<double>(), a.value});
  } else {
    each(stream, a.x.numel(), FillBody<float>{a.x.f32(), a.value});
  }
}

void copy(Stream& stream, const Copy& a) {
  nanofsdp::cuda::copy(stream, a.out.raw(), a.in.raw(), a.out.bytes());
}

void accumulate(Stream& stream, const Accumulate& a) {
  each(stream, a.out.numel(), AddBody{a.out.f32(), a.in.f32(), a.out.f32()});
}

void arange(Stream& stream, const Arange& a) {
  each(stream, a.x.numel(), ArangeBody{a.x.data<std::int32_t>(), a.period});
}

void dropout(Stream& stream, const Dropout& a) {
  const std::int64_t rows = a.x.shape().rank() > 0 ? a.x.dim(0) : 1;
  each(stream, a.x.numel(),
       DropoutBody{a.x.f32(), a.y.f32(), a.x.numel() / rows, a.key, drop_threshold(a.p),
                   1 / (1 - a.p)});
}

}  // namespace nanofsdp::ops::cuda
