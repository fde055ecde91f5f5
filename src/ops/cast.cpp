#include "ops/cast.h"

#include <cstdint>

#include "ops/operands.h"

namespace nanofsdp::ops {

void cast(Stream& stream, const Cast& a) {
  const Require require(stream);
  const std::int64_t n = a.in.numel();
  const bool narrow = a.in.dtype() == DType::float32;
  require.numel("cast: in", a.in, n, narrow ? DType::float32 : DType::bfloat16);
  require.numel("cast: out", a.out, n, narrow ? DType::bfloat16 : DType::float32);
  if constexpr (kCuda) {
    if (on_cuda(stream)) return cuda::cast(stream, a);
  }
  stream.enqueue(cost(a), [&stream, a, n, narrow] {
    stream.parallel_for(n, grain_of(), [&](std::int64_t begin, std::int64_t end) {
      if (narrow) {
        const float* in = a.in.f32();
        bfloat16* out = a.out.data<bfloat16>();
        for (std::int64_t i = begin; i < end; ++i) out[i] = to_bfloat16(in[i]);
      } else {
        const bfloat16* in = a.in.data<bfloat16>();
        float* out = a.out.f32();
        for (std::int64_t i = begin; i < end; ++i) out[i] = to_float32(in[i]);
      }
    });
  });
}

}  // namespace nanofsdp::ops
