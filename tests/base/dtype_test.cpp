#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace nanofsdp {
namespace {

std::uint16_t rounded(float x) { return to_bfloat16(x).bits; }

TEST(DType, KnowsItsSizeAndPyTorchsName) {
  EXPECT_EQ(size_of(DType::float32), 4u);
  EXPECT_EQ(size_of(DType::bfloat16), 2u);
  EXPECT_EQ(size_of(DType::float64), 8u);
  EXPECT_EQ(size_of(DType::int32), 4u);
  EXPECT_EQ(name_of(DType::float32), "float32");
  EXPECT_EQ(name_of(DType::bfloat16), "bfloat16");
  EXPECT_EQ(name_of(DType::float64), "float64");
  EXPECT_EQ(name_of(DType::int32), "int32");
  static_assert(sizeof(bfloat16) == size_of(dtype_of<bfloat16>));
  static_assert(sizeof(double) == size_of(dtype_of<double>));
  static_assert(dtype_of<float> == DType::float32 && dtype_of<std::int32_t> == DType::int32);
}

TEST(Bfloat16, EveryValueIsAFloat32ThatComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = to_float32({static_cast<std::uint16_t>(bits)});
    if (std::isnan(wide)) continue;
    ASSERT_EQ(rounded(wide), bits);
  }
}

TEST(Bfloat16, RoundsToTheNearest) {
  EXPECT_EQ(rounded(1.0f), 0x3f80);
  EXPECT_EQ(rounded(-1.0f), 0xbf80);
  EXPECT_EQ(rounded(1 + 0x1p-9f), 0x3f80);
  EXPECT_EQ(rounded(1 + 0x1.8p-8f), 0x3f81);
  EXPECT_EQ(rounded(3.14159265f), 0x4049);
}

TEST(Bfloat16, BreaksTiesTowardsTheEven) {
  EXPECT_EQ(rounded(1 + 0x1p-8f), 0x3f80) << "between 3f80 and 3f81";
  EXPECT_EQ(rounded(1 + 0x3p-8f), 0x3f82) << "between 3f81 and 3f82";
  EXPECT_EQ(rounded(-1 - 0x1p-8f), 0xbf80);
  EXPECT_EQ(rounded(-1 - 0x3p-8f), 0xbf82);
  EXPECT_EQ(rounded(std::nextafter(1 + 0x1p-8f, 2.0f)), 0x3f81) << "just above the tie";
  EXPECT_EQ(rounded(std::nextafter(1 + 0x3p-8f, 0.0f)), 0x3f81) << "just below the tie";
}

// The law, on random bits: no neighbour is nearer, and a tie goes to the even one.
TEST(Bfloat16, NoNeighbourIsNearer) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!(std::abs(x) < 3e38f)) continue;
    const std::uint16_t bits = rounded(x);
    const double error = std::abs(static_cast<double>(to_float32({bits})) - x);
    for (const int step : {-1, 1}) {
      const bfloat16 neighbour{static_cast<std::uint16_t>(bits + step)};
      const double other = std::abs(static_cast<double>(to_float32(neighbour)) - x);
      if (std::isnan(other)) continue;
      ASSERT_TRUE(error < other || (error == other && bits % 2 == 0)) << x;
    }
  }
}

TEST(Bfloat16, KeepsZerosInfinitiesAndDenormals) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rounded(0.0f), 0x0000);
  EXPECT_EQ(rounded(-0.0f), 0x8000);
  EXPECT_EQ(rounded(infinity), 0x7f80);
  EXPECT_EQ(rounded(-infinity), 0xff80);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), 0x7f80) << "beyond the largest";
  EXPECT_EQ(rounded(std::bit_cast<float>(0x7f7f7fffu)), 0x7f7f) << "still nearer to the largest";
  EXPECT_EQ(rounded(std::bit_cast<float>(0x00010000u)), 0x0001);
  EXPECT_EQ(rounded(std::numeric_limits<float>::denorm_min()), 0x0000);
}

// If the payload of a NaN lies in the lower half, rounding would give infinity or change the sign.
TEST(Bfloat16, NanStaysNan) {
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu,
                                   0xffffffffu, 0x7f80ffffu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(to_float32(to_bfloat16(nan)))) << std::hex << bits;
    EXPECT_EQ(to_bfloat16(nan).bits >> 15, bits >> 31) << "with its sign";
  }
}

// The value of each code by its definition.
double value_of(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x7f) == 0x7f ? NAN : code < 128 ? magnitude : -magnitude;
}

TEST(Float8, EachCodeHasItsValue) {
  for (int code = 0; code < 256; ++code) {
    const float got = from_float8({static_cast<std::uint8_t>(code)});
    const double want = value_of(code);
    ASSERT_EQ(std::isnan(got), std::isnan(want)) << code;
    ASSERT_EQ(std::signbit(got), code >= 128) << code;
    if (!std::isnan(want)) {
      ASSERT_EQ(got, want) << code;
    }
    ASSERT_EQ(to_float8(got).bits, code);
  }
  EXPECT_EQ(from_float8({0x7e}), 448);
  EXPECT_EQ(from_float8({0x01}), 0x1p-9f);
}

// The law: no neighbour is nearer, and a tie goes to the even one. Random bits, bits near those of
// values, and bits near those of ties.
TEST(Float8, NoNeighbourIsNearer) {
  const auto expect_nearest = [](float x) {
    const std::uint8_t code = to_float8(x).bits;
    if (std::abs(x) >= 448) {
      ASSERT_EQ(code, x > 0 ? 0x7e : 0xfe) << x;
      return;
    }
    ASSERT_EQ(code >= 128, std::signbit(x)) << x;
    const double error = std::abs(value_of(code) - x);
    for (const int step : {-1, 1}) {
      const int neighbour = (code & 0x7f) + step;
      if (neighbour < 0 || neighbour > 0x7e) continue;
      const double other = std::abs(value_of(neighbour | (code & 0x80)) - x);
      ASSERT_TRUE(error < other || (error == other && code % 2 == 0)) << x;
    }
  };
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(x)) expect_nearest(x);
  }
  for (int code = 0; code < 0x7e; ++code) {
    const double low = value_of(code), high = value_of(code + 1);
    for (const double at : {low, (low + high) / 2}) {
      const auto x = static_cast<float>(at);
      for (const float near : {x, std::nextafter(x, 1e3f), std::nextafter(x, -1e3f)}) {
        expect_nearest(near);
        expect_nearest(-near);
      }
    }
  }
}

TEST(Float8, SaturatesAndKeepsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {448.0f, 464.0f, 465.0f, 1e30f, infinity}) {
    EXPECT_EQ(to_float8(x).bits, 0x7e) << x;
    EXPECT_EQ(to_float8(-x).bits, 0xfe) << x;
  }
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu}) {
    EXPECT_EQ(to_float8(std::bit_cast<float>(bits)).bits, bits >> 31 ? 0xff : 0x7f);
  }
}

}  // namespace
}  // namespace nanofsdp
