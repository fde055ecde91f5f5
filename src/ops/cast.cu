#include "ops/cast.h"
#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

__global__ void narrow(const float* in, bfloat16* out, std::int64_t n) {
  const std::int64_t i = global_thread();
  if (i < n) out[i] = to_bfloat16(in[i]);
}

__global__ void widen(const bfloat16* in, float* out, std::int64_t n) {
  const std::int64_t i = global_thread();
  if (i < n) out[i] = to_float32(in[i]);
}

}  // namespace

void cast(Stream& stream, const Cast& a) {
  const std::int64_t n = a.in.numel();
  if (a.in.dtype() == DType::float32) {
    launch(stream, blocks_for(n), kThreads, narrow, a.in.f32(), a.out.data<bfloat16>(), n);
  } else {
    launch(stream, blocks_for(n), kThreads, widen, a.in.data<bfloat16>(), a.out.f32(), n);
  }
}

}  // namespace nanofsdp::ops::cuda
