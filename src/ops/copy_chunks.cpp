#include "ops/copy_chunks.h"

#include <algorithm>
#include <cstdint>

#include "base/transfer.h"
#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

// Elements from the first chunk's begin to the last chunk's end.
std::int64_t extent(const CopyChunks& a, std::int64_t stride) {
  const std::int64_t last = a.numel - 1;
  return last / a.chunk * stride + last % a.chunk + 1;
}

}  // namespace

void copy_chunks(Stream& stream, const CopyChunks& a) {
  if (a.numel == 0) return;
  NANOFSDP_CHECK_SHAPE(a.numel > 0 && a.chunk > 0 && std::min(a.in_stride, a.out_stride) >= a.chunk,
                       .what = "copy_chunks: chunks",
                       .expected = "of an element or more, a stride apart that is no less",
                       .got = fmt::format("{} elements in chunks of {}, with strides of {} and {}",
                                          a.numel, a.chunk, a.in_stride, a.out_stride));
  const Require require(stream);
  require.at_least("copy_chunks: in", a.in, extent(a, a.in_stride));
  require.at_least("copy_chunks: out", a.out, extent(a, a.out_stride));
  enqueue_loop(stream, a, a.numel, grain_of(), [a](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t q = begin / a.chunk, i = begin % a.chunk;
      const std::int64_t n = std::min(end - begin, a.chunk - i);
      convert(a.in.slice(q * a.in_stride + i, n), a.out.slice(q * a.out_stride + i, n));
      begin += n;
    }
  });
}

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
