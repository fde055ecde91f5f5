#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/device.h"
#include "base/register.h"

namespace nanofsdp::plan {

/// @file
/// @brief What the threads of a rank can compute at most: multiplies and adds in float32 that never
/// leave the registers.

/// A vector register, and so many of them that two units of four cycles never wait.
using Pack [[gnu::vector_size(kRegisterBytes)]] = float;
using Packs = std::array<Pack, 10>;
inline constexpr std::int64_t kLanes = sizeof(Packs) / sizeof(float);

/// Makes the compiler believe that somebody else reads and writes these: it can neither leave out
/// what was computed nor compute packs only once because they began alike.
inline void touch(Packs& packs) { asm volatile("" : "+m"(packs)); }

/// Keeps every thread of a CPU stream at it, for about a millisecond.
/// @returns the floating-point operations done by all of them
inline double multiply_and_add(Stream& stream) {
  constexpr std::int64_t kRounds = 1 << 20;
  stream.parallel_for(stream.threads(), 1, [](std::int64_t, std::int64_t) {
    const Pack factor = Pack{} + 0.999f, addend = Pack{} + 0.001f;
    Packs packs{};
    touch(packs);
    for (std::int64_t round = 0; round < kRounds; ++round) {
      for (Pack& pack : packs) pack = pack * factor + addend;
    }
    touch(packs);
  });
  return 2.0 * kRounds * kLanes * stream.threads();
}

/// FLOP/s of the fastest of a few tries, in about a fiftieth of a second; 0: unknown, on a GPU.
/// Each try is shorter than what the system gives a thread at a stretch: where ranks are more than
/// cores, this is what the rank's threads could do if each had a core to itself.
inline double peak_flops(Stream& stream) {
  if (stream.device() != Device::cpu) return 0;
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const double begin = now_seconds(), flops = multiply_and_add(stream);
    best = std::max(best, flops / (now_seconds() - begin));
  }
  return best;
}

}  // namespace nanofsdp::plan
