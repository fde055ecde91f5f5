#pragma once

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
double multiply_and_add(Stream& stream);

/// FLOP/s of the fastest of a few tries, in about a fiftieth of a second; 0: unknown, on a GPU.
/// Each try is shorter than what the system gives a thread at a stretch: where ranks are more than
/// cores, this is what the rank's threads could do if each had a core to itself.
double peak_flops(Stream& stream);

}  // namespace nanofsdp::plan
