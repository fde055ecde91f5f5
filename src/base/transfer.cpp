#include "base/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/cuda.h"

namespace nanofsdp {

void convert(const Tensor& in, const Tensor& out) {
  if (in.dtype() == out.dtype()) return void(std::memcpy(out.raw(), in.raw(), in.bytes()));
  if (in.dtype() == DType::bfloat16)
    return void(std::ranges::transform(in.span<bfloat16>(), out.f32(), to_float32));
  const std::span<const float> all = in.span<float>();
  bfloat16* const to = out.data<bfloat16>();
  constexpr std::size_t kBlock = 512, kAhead = 4 * kBlock, kLine = 16;
  for (std::size_t i = 0; i < all.size(); i += kBlock) {
    // Rounding keeps the processor too busy to fetch memory early, so this loop asks for later
    // elements now.
    for (std::size_t k = 0; k < kBlock; k += kLine) __builtin_prefetch(&all[i] + kAhead + k);
    std::ranges::transform(all.subspan(i, std::min(kBlock, all.size() - i)), to + i, to_bfloat16);
  }
}

void transfer(Stream& stream, const Tensor& in, const Tensor& out) {
  const std::pair converted(DType::float32, DType::bfloat16);
  const bool converts = std::minmax({in.dtype(), out.dtype()}) == converted;
  // Whether both tensors lie on a device.
  const bool within = in.device() != Device::cpu && out.device() != Device::cpu;
  NANOFSDP_CHECK_SHAPE(
      in.numel() == out.numel() && (in.dtype() == out.dtype() || (converts && !within)),
      .what = "transfer of a tensor",
      .expected = fmt::format("{} {}", out.numel(), name_of(out.dtype())),
      .got = fmt::format("{} {}", in.numel(), name_of(in.dtype())),
      .hint = converts && within ? "use ops::cast: the host converts what it sends or gets" : "");
  if (in.bytes() == 0) return;
  if (converts && in.device() != out.device()) {
    // The tensor on the device. The bytes that are copied have its dtype.
    const Tensor& far = in.device() == Device::cpu ? out : in;
    std::vector<std::byte> room(far.bytes());
    const Tensor stop(room.data(), far.shape(), far.dtype());
    &far == &in ? transfer(stream, in, stop) : convert(in, stop);
    return &far == &in ? convert(stop, out) : transfer(stream, stop, out);
  }
  // CUDA's copy from or to pageable memory would wait too, but that wait does not notice a
  // collective that fails.
  if (stream.device() != Device::cpu && out.device() == Device::cpu) stream.synchronize();
  NANOFSDP_RETURN_ON_CUDA(stream.device(), copy(stream, out.raw(), in.raw(), in.bytes()));
  const auto bytes = static_cast<double>(in.bytes());
  stream.enqueue({.read = bytes, .written = bytes}, [in, out] { convert(in, out); });
  if (stream.device() == Device::cpu) stream.synchronize();  // both tensors lie on the host
}

void copy_within(Stream& stream, const void* from, const Tensor& to) {
  constexpr std::int64_t kGrain = 1 << 16;  // bytes that each thread copies at least
  if (to.bytes() == 0 || to.raw() == from) return;
  NANOFSDP_RETURN_ON_CUDA(stream.device(), copy(stream, to.raw(), from, to.bytes()));
  auto* const target = static_cast<std::byte*>(to.raw());
  const auto* const source = static_cast<const std::byte*>(from);
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  };
  stream.parallel_for(static_cast<std::int64_t>(to.bytes()), kGrain, copy);
}

}  // namespace nanofsdp
