#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <sstream>

#include "base/dtype.h"
#include "parity/golden.h"

// PyTorch's float8_e4m3fn of all 65,536 bfloat16 numbers, and float32 of all 256 codes, to the bit.
// Beyond the largest value PyTorch gives NaN, so golden.py has clamped the numbers first.

namespace nanofsdp {
namespace {

TEST(Float8, OfEveryBfloat16IsPyTorchs) {
  std::istringstream lines(testing::golden("float8.txt"));
  lines >> std::hex;
  std::uint32_t next = 0, first, code, value;
  int last = -1, codes = 0;
  const auto expect_until = [&](std::uint32_t end) {
    for (; next < end; ++next) {
      const float x = to_float32(bfloat16{static_cast<std::uint16_t>(next)});
      ASSERT_EQ(to_float8(x).bits, last) << x;
    }
  };
  while (lines >> first >> code >> value) {
    expect_until(first);
    last = static_cast<int>(code);
    const float widened = from_float8({static_cast<std::uint8_t>(code)});
    const bool is_nan = std::isnan(std::bit_cast<float>(value));
    ASSERT_EQ(std::isnan(widened), is_nan) << code;
    if (!is_nan) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(widened), value) << code;
    }
    ++codes;
  }
  expect_until(65536);
  EXPECT_EQ(next, 65536u);
  EXPECT_EQ(codes, 256) << "each code is that of some number";
}

}  // namespace
}  // namespace nanofsdp
