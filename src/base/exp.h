#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace nanofsdp {

/// @file
/// @brief The exponential of the CPU's softmaxes, made for loops.
///
///     exp(x) = 2^n exp(r)        n = x / ln 2, rounded        r = x - n ln 2
///
/// (Cody and Waite 1980, Software Manual for the Elementary Functions.) As |r| <= ln 2 / 2, a
/// polynomial of degree 5 is enough. No branch and no call: compilers turn a loop of it into
/// vectors, of any width, and an element's bits do not depend on its place among the others, as
/// they do where a library treats what fills no vector in another way.

/// a * b + c, rounded once where the processor can do that in one step.
inline float multiply_add(float a, float b, float c) {
#ifdef FP_FAST_FMAF
  return std::fma(a, b, c);
#else
  return a * b + c;  // there, std::fma would be a call of a slow function
#endif
}

/// exp(x) for x in [-87, 88]: relative error at most 4e-7, and 6e-8 |x| more where multiply_add
/// rounds twice. What lies below counts as -87; above, it grows on to infinity. NaN for NaN.
inline float exponential(float x) {
  constexpr float kPerLn2 = 1.44269504f;
  constexpr float kLn2 = 0.693147181f;
  constexpr float kRound = 0x1.8p23f + 127;  // a sum with it has no digits left behind the point

  x = x < -87.0f ? -87.0f : x;
  // The sum's lowest bits are n + 127, the exponent of 2^n. It is kept from running over as an
  // integer: to compare floats takes GCC four instructions. NaN passes, by way of x.
  const auto sum = std::min(std::bit_cast<std::int32_t>(multiply_add(x, kPerLn2, kRound)),
                            std::bit_cast<std::int32_t>(kRound + 127));
  const float r = multiply_add(kRound - std::bit_cast<float>(sum), kLn2, x);
  // exp(r), off by 1.05e-7 of it at most: the coefficients for which that is least.
  float p = multiply_add(r, 0.0083125252f, 0.0418901145f);
  p = multiply_add(r, p, 0.166671142f);
  p = multiply_add(r, p, 0.499992311f);
  p = multiply_add(r, p, 1.0f);
  p = multiply_add(r, p, 1.0f);
  // Times 2^n: an exponent starts at bit 23.
  return p * std::bit_cast<float>(static_cast<std::uint32_t>(sum) << 23);
}

}  // namespace nanofsdp
