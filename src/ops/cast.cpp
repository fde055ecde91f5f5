#include "ops/cast.h"

#include <cstdint>

#include "ops/copy_chunks.h"
#include "ops/operands.h"

namespace nanofsdp::ops {

void cast(Stream& stream, const Cast& a) {
  const Require require(stream);
  const std::int64_t n = a.in.numel();
  const bool narrow = a.in.dtype() == DType::float32;
  require.numel("cast: in", a.in, n, narrow ? DType::float32 : DType::bfloat16);
  require.numel("cast: out", a.out, n, narrow ? DType::bfloat16 : DType::float32);
  copy_chunks(stream,
              {.in = a.in, .out = a.out, .numel = n, .chunk = n, .in_stride = n, .out_stride = n});
}

}  // namespace nanofsdp::ops
