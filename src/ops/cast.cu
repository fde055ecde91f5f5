#include "ops/cast.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

struct Narrow {
  const float* in;
  __device__ bfloat16 operator()(std::int64_t i) const { return to_bfloat16(in[i]); }
};

struct Widen {
  const bfloat16* in;
  __device__ float operator()(std::int64_t i) const { return to_float32(in[i]); }
};

}  // namespace

void cast(Stream& stream, const Cast& a) {
  if (a.in.dtype() == DType::float32) {
    elementwise(stream, a.in.numel(), a.out.data<bfloat16>(), Narrow{a.in.f32()});
  } else {
    elementwise(stream, a.in.numel(), a.out.f32(), Widen{a.in.data<bfloat16>()});
  }
}

}  // namespace nanofsdp::ops::cuda
