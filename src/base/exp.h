#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace nanofsdp {

/// @file
/// @brief The exponential function that the CPU's softmaxes use, made for vectorised loops.
///
///     exp(x) = 2^n exp(r)        n = x / ln 2, rounded        r = x - n ln 2
///
/// (Cody and Waite 1980, Software Manual for the Elementary Functions.) Because |r| <= ln 2 / 2, a
/// polynomial of degree 5 is enough. The function has no branch and no call, so compilers vectorise
/// a loop over it at any width. The bits of an element do not depend on its position. In a library
/// that computes the last elements of an array in another way, they do.

/// a * b + c. It is rounded once if the processor has one instruction for it, else twice.
inline float multiply_add(float a, float b, float c) {
#ifdef FP_FAST_FMAF
  return std::fma(a, b, c);
#else
  return a * b + c;  // such processors call a slow function for std::fma
#endif
}

/// exp(x) for x in [-87, 88]. The relative error is at most 4e-7, and 6e-8 |x| more if
/// multiply_add() rounds twice. A smaller x counts as -87; a larger x gives larger values, up to
/// infinity. NaN gives NaN.
inline float exponential(float x) {
  constexpr float kPerLn2 = 1.44269504f;
  constexpr float kLn2 = 0.693147181f;
  // Added to a number, it leaves no bits for the fraction.
  constexpr float kRound = 0x1.8p23f + 127;

  x = x < -87.0f ? -87.0f : x;
  // The lowest bits of the sum are n + 127, the exponent of 2^n. The limit is applied to the sum as
  // an integer, because GCC needs four instructions to compare floats. NaN reaches the result
  // through x.
  const auto sum = std::min(std::bit_cast<std::int32_t>(multiply_add(x, kPerLn2, kRound)),
                            std::bit_cast<std::int32_t>(kRound + 127));
  const float r = multiply_add(kRound - std::bit_cast<float>(sum), kLn2, x);
  // exp(r), with the coefficients that make the largest relative error least: 1.05e-7.
  float p = multiply_add(r, 0.0083125252f, 0.0418901145f);
  p = multiply_add(r, p, 0.166671142f);
  p = multiply_add(r, p, 0.499992311f);
  p = multiply_add(r, p, 1.0f);
  p = multiply_add(r, p, 1.0f);
  // This multiplies by 2^n: the exponent of a float begins at bit 23.
  return p * std::bit_cast<float>(static_cast<std::uint32_t>(sum) << 23);
}

}  // namespace nanofsdp
