#pragma once

#include <cstring>
#include <utility>

#include "base/register.h"

namespace nanofsdp::ops {

/// @file
/// @brief A register of floats, as GCC and Clang write it for any processor. Internal to gemm.

constexpr int kLanes = kRegisterBytes / sizeof(float);  ///< floats in a register

using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using Lanes = std::make_integer_sequence<int, kLanes>;

// The loop that follows, written out, so that what it keeps in arrays stays in registers.
#ifdef __clang__
#define NANOFSDP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NANOFSDP_UNROLL _Pragma("GCC unroll 16")
#endif

inline Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store(float* to, Vector v) { std::memcpy(to, &v, sizeof v); }

/// These lanes of a and, from kLanes on, of b.
template <int... lane>
Vector pick(Vector a, Vector b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, lane...);
#else  // GCC 11
  using Indices [[gnu::vector_size(sizeof(Vector))]] = int;
  return __builtin_shuffle(a, b, Indices{lane...});
#endif
}

/// The sum over the lanes: halves are added, then quarters, and so on.
template <int span = kLanes / 2, int... lane>
float sum_of(Vector v, std::integer_sequence<int, lane...> lanes) {
  v += pick<(lane ^ span)...>(v, v);
  if constexpr (span > 1) return sum_of<span / 2>(v, lanes);
  return v[0];
}

/// kLanes rows of kLanes, turned: rows half of them apart exchange halves, and so on down to
/// neighbours, which exchange single lanes.
template <int span = kLanes / 2, int... lane>
void turn(Vector (&rows)[kLanes], std::integer_sequence<int, lane...> lanes) {
  NANOFSDP_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    if (i & span) continue;
    const Vector a = rows[i], b = rows[i + span];
    rows[i] = pick<(lane & span ? kLanes + lane - span : lane)...>(a, b);
    rows[i + span] = pick<(lane & span ? kLanes + lane : lane + span)...>(a, b);
  }
  if constexpr (span > 1) turn<span / 2>(rows, lanes);
}

}  // namespace nanofsdp::ops
