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
  if constexpr (kCuda) {
    if (stream.device() == Device::cuda) {
      // The copy waits as well, as always for pageable memory: but deaf to collectives that fail.
      if (out.device() == Device::cpu) stream.synchronize();
      return cuda::copy(stream, out.raw(), in.raw(), in.bytes());
    }
  }
  if (is_simulated(stream.device()) && out.device() == Device::cpu) stream.synchronize();
  const auto bytes = static_cast<double>(in.bytes());
  stream.enqueue({.read = bytes, .written = bytes},
                 [in, out] { std::memcpy(out.raw(), in.raw(), in.bytes()); });
}

}  // namespace nanofsdp
