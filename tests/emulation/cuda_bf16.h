#pragma once

#include <cstdint>

#include "base/dtype.h"

/// @file
/// @brief The part of CUDA's bfloat16 that nanofsdp uses, on the host.

struct __nv_bfloat16 {
  std::uint16_t bits;
};

inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {nanofsdp::to_bfloat16(x).bits}; }
inline float __bfloat162float(__nv_bfloat16 x) { return nanofsdp::to_float32({x.bits}); }
