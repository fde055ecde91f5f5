#include "base/transfer.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "base/cuda.h"

namespace nanofsdp {

void transfer(Stream& stream, const Tensor& in, const Tensor& out) {
  NANOFSDP_CHECK_SHAPE(in.numel() == out.numel() && in.dtype() == out.dtype(),
                       .what = "transfer of a tensor",
                       .expected = fmt::format("{} {}", out.numel(), name_of(out.dtype())),
                       .got = fmt::format("{} {}", in.numel(), name_of(in.dtype())));
  if (in.bytes() == 0) return;
  // The copy of a GPU waits as well, as always for pageable memory: but deaf to collectives that
  // fail.
  const bool from_device = !is_host(stream.device()) && is_host(out.device());
  if (from_device) stream.synchronize();
  if constexpr (kCuda) {
    if (stream.device() == Device::cuda) {
      return cuda::copy(stream, out.raw(), in.raw(), in.bytes());
    }
  }
  const auto bytes = static_cast<double>(in.bytes());
  stream.enqueue({.read = bytes, .written = bytes},
                 [in, out] { std::memcpy(out.raw(), in.raw(), in.bytes()); });
}

}  // namespace nanofsdp
