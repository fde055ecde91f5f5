#pragma once

#include <cstdint>
#include <string_view>

#include "base/host_device.h"

namespace nanofsdp {

/// @file
/// @brief Element types of tensors.

/// The type of a tensor's elements. The comments say how it is used.
enum class DType {
  float32,   ///< parameters, gradients, arithmetic
  bfloat16,  ///< storage, communication, and factors of products on a GPU
  float64,   ///< sums of squares
  int32      ///< tokens
};

/// The upper half of a float32: 8 bits of exponent, 7 of mantissa. It is a storage format:
/// arithmetic widens it to float32.
struct bfloat16 {
  std::uint16_t bits = 0;  ///< sign, exponent, mantissa, from the top bit down
};

/// The number of bytes of one element.
constexpr std::uint64_t size_of(DType dtype) {
  constexpr std::uint64_t kBytes[] = {4, 2, 8, 4};
  return kBytes[static_cast<int>(dtype)];
}

/// PyTorch's name of the type, for messages.
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"float32", "bfloat16", "float64", "int32"};
  return kNames[static_cast<int>(dtype)];
}

// The built-in replaces std::bit_cast, which nvcc does not have for kernels.

/// Widens a bfloat16. The result is exact, because every bfloat16 is a float32.
NANOFSDP_HOST_DEVICE inline float to_float32(bfloat16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}

/// Rounds to nearest, ties to even. NaN stays NaN, because rounding could turn it into infinity.
/// Both cases end in the same sum and shift, so a vectorised loop narrows one vector instead of
/// three.
NANOFSDP_HOST_DEVICE inline bfloat16 to_bfloat16(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t odd = (bits >> 16) & 1, quiet = ~bits & 0x400000;
  const bool nan = x != x;
  return {static_cast<std::uint16_t>((bits + (nan ? quiet : 0x7fff + odd)) >> 16)};
}

/// The dtype of a C++ type: float, bfloat16, double, std::int32_t.
template <class T>
inline constexpr DType dtype_of = DType::float32;
/// @copydoc dtype_of
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bfloat16;
/// @copydoc dtype_of
template <>
inline constexpr DType dtype_of<double> = DType::float64;
/// @copydoc dtype_of
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::int32;

}  // namespace nanofsdp
