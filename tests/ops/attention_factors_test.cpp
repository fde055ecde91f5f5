#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/attention_oracle.h"

// Attention whose products may round their factors to bfloat16: what a GPU does with heads of 64
// features. The CPU does not, nor does a GPU with other heads.

namespace nanofsdp::ops::attention_factors_test {
namespace {

using namespace attention_oracle;
using testing::kDevice;
using testing::relative_l2;

// One row, a tile less or more one row, several tiles, with keys of their own and shared ones.
constexpr Sizes kOf64[] = {{2, 1, 64, 1},      {1, 3, 128, 2},    {1, 64, 64, 1},
                           {2, 63, 128, 2},    {1, 65, 128, 2},   {1, 200, 64, 1},
                           {1, 70, 256, 4, 2}, {2, 66, 192, 3, 1}};

// bfloat16 has 8 significant bits: rounding changes a number by 2^-9 of it at most, up or down.
constexpr double kRounded = 5e-3;

Operands narrow(const Sizes& s, float dropout = 0) {
  Operands o(s, 1, dropout);
  o.factors = DType::bfloat16;
  return o;
}

TEST(AttentionFactors, MayBeRoundedAndNoMore) {
  for (const Sizes& s : kOf64) {
    for (const float dropout : {0.0f, 0.3f}) {
      SCOPED_TRACE(name(s, dropout));
      Operands o = narrow(s, dropout);
      o.run();
      const Oracle want(s, o.qkv.doubles(), dropout, o.dy.doubles());
      EXPECT_LE(relative_l2(o.y.values, want.y), kRounded);
      EXPECT_LE(relative_l2(o.lse.values, want.lse), kRounded);
      EXPECT_LE(relative_l2(o.dqkv.values, want.dqkv), kRounded);
    }
  }
}

// Numbers that bfloat16 has, and weights that are one number over powers of two: nothing is rounded
// but exponentials and sums, so a wrong index shows in the third digit.
TEST(AttentionFactors, ThatNeedNoRoundingAreExact) {
  for (const Sizes& s : kOf64) {
    SCOPED_TRACE(name(s, 0));
    Operands o = narrow(s);
    for (float& x : o.qkv.values) x = to_float32(to_bfloat16(x));
    const std::int64_t scored = s.C + s.kv();
    for (std::size_t i = 0; i < o.qkv.values.size(); ++i) {
      if (static_cast<std::int64_t>(i) % s.row() < scored) o.qkv.values[i] = 0;  // every score is 0
    }
    attention(*o.stream, o.forward());
    const Oracle want(s, o.qkv.doubles(), 0);
    EXPECT_LE(relative_l2(o.y.values, want.y), kTolerance);
    EXPECT_LE(relative_l2(o.lse.values, want.lse), kTolerance);
  }
}

TEST(AttentionFactors, AreRoundedOnTensorCoresAlone) {
  for (const Sizes& s : {Sizes{1, 70, 64, 1}, Sizes{1, 70, 60, 1}, Sizes{1, 66, 130, 2}}) {
    SCOPED_TRACE(name(s, 0));
    Operands wide(s), o = narrow(s);
    wide.run(), o.run();
    const bool rounds = kDevice == Device::cuda && s.C / s.H == 64;
    EXPECT_EQ(o.y.values != wide.y.values, rounds);
    EXPECT_EQ(o.dqkv.values != wide.dqkv.values, rounds);
  }
}

// Tensor cores read 16 bytes at a time.
TEST(AttentionFactors, ThatBeginBetweenMultiplesOf16BytesAreNotRounded) {
  const Sizes s{1, 70, 64, 1};
  Operands packed(s), o = narrow(s);
  attention(*packed.stream, packed.forward());
  Owned<float> shifted({s.B, s.T, s.row() + 1}, kPoison);
  for (std::int64_t t = 0; t < s.T; ++t) {
    const auto row = o.qkv.values.begin() + t * s.row();
    std::copy(row, row + s.row(), shifted.values.begin() + t * (s.row() + 1) + 1);
  }
  AttentionForward a = o.forward();
  a.q = {shifted, 1, s.H}, a.k = {shifted, 1 + s.C, s.H}, a.v = {shifted, 1 + 2 * s.C, s.H};
  attention(*o.stream, a);
  EXPECT_EQ(o.y.values, packed.y.values);
}

TEST(AttentionFactors, GiveTheSameBitsOnEveryRun) {
  for (const Sizes& s : {Sizes{2, 130, 128, 2}, Sizes{1, 70, 256, 4, 2}}) {
    Operands a = narrow(s, 0.3f), b = narrow(s, 0.3f);
    a.run(), b.run();
    EXPECT_EQ(a.y.values, b.y.values);
    EXPECT_EQ(a.lse.values, b.lse.values);
    EXPECT_EQ(a.dqkv.values, b.dqkv.values);
  }
}

// As in float32: what is to come must not show, not even at 1e30.
TEST(AttentionFactors, OfALaterPositionAreNotSeen) {
  const Sizes s{1, 130, 64, 1};
  for (const std::int64_t j : {63, 64, 129}) {
    Operands before = narrow(s), after = narrow(s);
    std::fill(after.qkv.values.begin() + j * s.row(), after.qkv.values.begin() + (j + 1) * s.row(),
              1e30f);
    attention(*before.stream, before.forward());
    attention(*after.stream, after.forward());
    const auto& y = before.y.values;
    EXPECT_TRUE(std::equal(y.begin(), y.begin() + j * s.C, after.y.values.begin())) << j;
  }
}

TEST(AttentionFactors, OfQueriesThatAskAloneAreTheSame) {
  const Sizes s{2, 130, 128, 2};
  Operands all = narrow(s);
  attention(*all.stream, all.forward());
  for (const std::int64_t first : {1, 64, 100}) {
    const std::int64_t n = s.T - first;
    Owned<float> y({s.B, n, s.C}, kPoison), lse({s.B, s.H, n}, kPoison);
    AttentionForward a = all.forward();
    a.y = y, a.lse = lse, a.first = first;
    attention(*all.stream, a);
    for (std::int64_t b = 0; b < s.B; ++b) {
      const Doubles want(all.y.values.begin() + (b * s.T + first) * s.C,
                         all.y.values.begin() + (b + 1) * s.T * s.C);
      const std::vector<float> got(y.values.begin() + b * n * s.C,
                                   y.values.begin() + (b + 1) * n * s.C);
      EXPECT_LE(relative_l2(got, want), kRounded) << first;
    }
  }
}

}  // namespace
}  // namespace nanofsdp::ops::attention_factors_test
