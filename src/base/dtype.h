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
  int32,     ///< tokens
  /// Communication alone. A tensor counts the bytes of its messages, in which scales lie too
  /// (ops/copy_chunks.h).
  float8_e4m3
};

/// The upper half of a float32: 8 bits of exponent, 7 of mantissa. It is a storage format:
/// arithmetic widens it to float32.
struct bfloat16 {
  std::uint16_t bits = 0;  ///< sign, exponent, mantissa, from the top bit down
};

/// From the top bit down: a sign, 4 bits of exponent, 3 of mantissa (arXiv 2209.05433). The largest
/// value is 448, and the smallest above zero is 2^-9. There is no infinity.
struct float8_e4m3 {
  std::uint8_t bits = 0;  ///< without the sign, 0x7f is NaN
};

/// The number of bytes of one element.
constexpr std::uint64_t size_of(DType dtype) {
  constexpr std::uint64_t kBytes[] = {4, 2, 8, 4, 1};
  return kBytes[static_cast<int>(dtype)];
}

/// PyTorch's name of the type, for messages.
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"float32", "bfloat16", "float64", "int32", "float8_e4m3"};
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

/// Widens a float8_e4m3. The result is exact.
NANOFSDP_HOST_DEVICE inline float from_float8(float8_e4m3 x) {
  const std::uint32_t code = x.bits & 0x7f;
  // 120 is the difference of the two biases. The product also gives the values below 2^-6.
  const float value = __builtin_bit_cast(float, code == 0x7f ? 0x7fc00000 : code << 20) * 0x1p120f;
  return x.bits == code ? value : -value;
}

/// Rounds to nearest, ties to even. A number above the largest value becomes that value, also an
/// infinity. NaN stays NaN.
NANOFSDP_HOST_DEVICE inline float8_e4m3 to_float8(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t magnitude = bits & 0x7fffffff, odd = (bits >> 20) & 1;
  // Below 2^-6 all values are multiples of 2^-9, the last bit of a sum with 2^14. That sum rounds.
  const float sum = __builtin_bit_cast(float, magnitude) + 0x1p14f;
  const std::uint32_t rounded = magnitude < 0x3c800000
                                    ? __builtin_bit_cast(std::uint32_t, sum) - 0x46800000
                                    : (magnitude + 0x7ffff + odd - 0x3c000000) >> 20;
  const std::uint32_t code = magnitude > 0x7f800000 ? 0x7f : rounded < 0x7e ? rounded : 0x7e;
  return {static_cast<std::uint8_t>(code | (bits >> 24 & 0x80))};
}

/// The dtype of elements at a pointer. There is one function for each dtype.
constexpr DType dtype_at(const float*) { return DType::float32; }
constexpr DType dtype_at(const bfloat16*) { return DType::bfloat16; }
constexpr DType dtype_at(const double*) { return DType::float64; }
constexpr DType dtype_at(const std::int32_t*) { return DType::int32; }
constexpr DType dtype_at(const float8_e4m3*) { return DType::float8_e4m3; }

/// A C++ type of elements: float, bfloat16, double, std::int32_t, float8_e4m3, or const of these.
template <class T>
concept ElementType = requires(T* x) {
  dtype_at(x);
};

/// The dtype of such a type.
template <ElementType T>
inline constexpr DType dtype_of = dtype_at(static_cast<T*>(nullptr));

}  // namespace nanofsdp
