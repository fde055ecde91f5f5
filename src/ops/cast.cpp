#include "ops/cast.h"

#include <cstdint>

#include "base/transfer.h"
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
  stream.enqueue(cost(a), [&stream, a, n] {
    stream.parallel_for(n, grain_of(), [&](std::int64_t begin, std::int64_t end) {
      convert(a.in.slice(begin, end - begin), a.out.slice(begin, end - begin));
    });
  });
}

}  // namespace nanofsdp::ops
