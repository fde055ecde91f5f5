#pragma once

#include <stdexcept>

#include "cuda_bf16.h"
#include "cuda_runtime.h"

/// @file
/// @brief The instructions of src/ops/flash/warp_matrix.cuh, on the host.
///
/// Each lane passes pointers to its data, and computes its own words or sums from the data of all
/// lanes. Addresses that are misaligned or outside the block's shared memory are refused. So are
/// eight rows of a matrix, or the words of a warp, that lie in the same banks of shared memory,
/// because a GPU would read them one after the other.

namespace nanofsdp::ops::cuda::flash {

inline Shared shared_begin() { return emulation::kSharedBegin; }

inline float element(unsigned word, unsigned i) {
  return __uint_as_float(i == 0 ? word << 16 : word & 0xffff0000u);
}

template <bool kTransposed>
void load_matrices(unsigned (&to)[4], Shared row) {
  void* const* rows = emulation::meet(&row);
  const unsigned g = emulation::lane() / 4, t = emulation::lane() % 4;
  unsigned made[4];
  for (unsigned i = 0; i < 4; ++i) {
    const auto begin = [&](unsigned r) { return *static_cast<Shared*>(rows[8 * i + r]); };
    unsigned banks = 0;
    for (unsigned r = 0; r < 8; ++r) banks |= 1u << begin(r) / 16 % 8;
    if (banks != 0xff) throw std::runtime_error("emulated kernel: rows of a matrix share banks");
    const auto at = [&](unsigned r, unsigned c) {
      const auto* elements =
          reinterpret_cast<const std::uint16_t*>(emulation::shared(begin(r), 16, 16));
      return unsigned{elements[c]};
    };
    made[i] =
        kTransposed ? at(2 * t, g) | at(2 * t + 1, g) << 16 : at(g, 2 * t) | at(g, 2 * t + 1) << 16;
  }
  emulation::part();
  for (unsigned i = 0; i < 4; ++i) to[i] = made[i];
}

inline void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  struct Factors {
    float a[8], b[4];
  } mine;
  for (unsigned i = 0; i < 8; ++i) mine.a[i] = element(a[i / 2], i % 2);
  for (unsigned i = 0; i < 4; ++i) mine.b[i] = element(i < 2 ? b0 : b1, i % 2);
  void* const* all = emulation::meet(&mine);
  const auto of = [&](unsigned lane) -> const Factors& {
    return *static_cast<Factors*>(all[lane]);
  };
  const unsigned g = emulation::lane() / 4, t = emulation::lane() % 4;
  float made[4];
  for (unsigned e = 0; e < 4; ++e) {
    const unsigned column = 2 * t + e % 2;
    double sum = sums[e];
    for (unsigned l = 0; l < 4; ++l) {  // four columns of the left factor for each of four lanes
      const Factors &left = of(4 * g + l), &right = of(4 * column + l);
      for (unsigned i = 0; i < 2; ++i) {
        sum += double{left.a[e / 2 * 2 + i]} * right.b[i];
        sum += double{left.a[e / 2 * 2 + 4 + i]} * right.b[2 + i];
      }
    }
    made[e] = static_cast<float>(sum);
  }
  emulation::part();
  for (unsigned e = 0; e < 4; ++e) sums[e] = made[e];
}

template <int kBytes>
void copy_later(Shared to, const void* from, bool there) {
  emulation::copy_later(to, from, kBytes, there);
}
inline void wait_for_copies() { emulation::wait_for_copies(); }

inline float4 load16(Shared from) {
  return *reinterpret_cast<const float4*>(emulation::shared(from, 16, 16));
}

inline void store4(Shared to, unsigned x) {
  void* const* all = emulation::meet(&to);
  unsigned banks = 0;
  for (unsigned l = 0; l < emulation::kWarp; ++l) {
    banks |= 1u << *static_cast<Shared*>(all[l]) / 4 % 32;
  }
  emulation::part();
  if (banks != 0xffffffffu)
    throw std::runtime_error("emulated kernel: words of a warp share banks");
  *reinterpret_cast<unsigned*>(emulation::shared(to, 4, 4)) = x;
}

inline float power_of_2(float x) { return std::exp2(x); }

inline unsigned pack(float low, float high) {
  return __float2bfloat16_rn(low).bits | unsigned{__float2bfloat16_rn(high).bits} << 16;
}

}  // namespace nanofsdp::ops::cuda::flash
