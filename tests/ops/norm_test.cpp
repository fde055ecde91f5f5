#include "ops/norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::norm_test {
namespace {

using testing::expect_error;
using testing::Owned;
using testing::random_tensor;
using testing::stream_of;

double squares(Tensor x, int threads = 1, double before = 0) {
  Owned<double> out({1}, before);
  squared_norm(*stream_of(threads), {.x = x, .out = out});
  return out.values[0];
}

// Sizes around the lanes, a block of 16384, and 64 blocks.
constexpr std::int64_t kBlocks = testing::kEmulated ? 8 : 64;
constexpr std::int64_t kSizes[] = {
    0, 1, 15, 16, 17, 1003, 16383, 16384, 16385, 50000, kBlocks * 16384 + 5};

TEST(SquaredNorm, EqualsTheSumInLongDouble) {
  for (const std::int64_t n : kSizes) {
    Owned<float> x = random_tensor({n}, 1, 3);
    const auto before = x.values;
    long double want = 0;
    for (const float value : x.values) want += static_cast<long double>(value) * value;
    EXPECT_NEAR(squares(x), static_cast<double>(want), 1e-13 * static_cast<double>(want)) << n;
    EXPECT_EQ(x.values, before);
  }
}

TEST(SquaredNorm, CountsEveryElementOnceAndAddsToWhatIsThere) {
  for (const std::int64_t n : kSizes) {
    Owned<float> threes({n}, 3);
    EXPECT_EQ(squares(threes, 1, 0.5), 9.0 * static_cast<double>(n) + 0.5);
  }
}

// There are more sums of blocks than threads that add them up.
TEST(SquaredNorm, CountsTheElementsOfManyBlocks) {
  const std::int64_t n = 257 * 16384 + 1;
  EXPECT_EQ(squares(Owned<float>({n}, 3)), 9.0 * static_cast<double>(n));
}

TEST(SquaredNorm, SizesBeyondFloat32sSquaresDoNotOverflow) {
  Owned<float> x({2});
  x.values = {3e30f, 4e-30f};
  EXPECT_NEAR(squares(x), 9e60, 1e55);
}

TEST(SquaredNorm, ThreadsAndPlaceChangeNoBit) {
  for (const std::int64_t n : kSizes) {
    Owned<float> x = random_tensor({n + 16}, 1);
    const double one = squares(x.view().slice(0, n));
    for (const int threads : {2, 3}) EXPECT_EQ(squares(x.view().slice(0, n), threads), one) << n;
    for (std::int64_t at = 1; at < 16; ++at) {
      Owned<float> moved({n + 16});
      std::copy_n(x.values.begin(), n, moved.values.begin() + at);
      EXPECT_EQ(squares(moved.view().slice(at, n)), one) << n;
    }
  }
}

// The sum of a part does not depend on other parts. The first and the last part may be shorter.
TEST(SquaredNorm, OfPartsIsThatOfEachAlone) {
  for (const std::int64_t part : {5L, 1003L, 20000L}) {
    for (const std::int64_t offset : {0L, 1L, part - 1}) {
      const std::int64_t n = 3 * part + 2, parts = (offset + n - 1) / part + 1;
      Owned<float> x = random_tensor({n}, 1, 3);
      Owned<double> out({parts}, 0.5);
      squared_norm(*stream_of(2), {.x = x, .out = out, .part = part, .offset = offset});
      for (std::int64_t k = 0, begin = 0; k < parts; ++k) {
        const std::int64_t end = std::min((k + 1) * part - offset, n);
        const Tensor alone = x.view().slice(begin, end - begin);
        EXPECT_EQ(out.values[static_cast<std::size_t>(k)], squares(alone, 1, 0.5)) << part << k;
        begin = end;
      }
    }
  }
}

// The elements before x lie in the first part, so there are fewer of them than the part has.
TEST(SquaredNorm, BeginsInItsFirstPart) {
  Owned<float> x = random_tensor({4}, 1);
  for (const std::int64_t part : {1, 2, 3, 4, 5, 9}) {
    for (const std::int64_t offset : {part, part + 1, 3 * part + 2}) {
      Owned<double> out({(offset + 3) / part + 1});
      expect_error<Error>(
          [&] {
            squared_norm(*stream_of(1), {.x = x, .out = out, .part = part, .offset = offset});
          },
          "squared_norm: part and offset");
    }
  }
}

struct Clipped {
  float norm, coefficient;
};

Clipped clip(std::vector<double> squares, double max_norm) {
  Owned<double> in({static_cast<std::int64_t>(squares.size())});
  in.values.assign(squares.begin(), squares.end());
  Owned<float> norm({1}, -1), coefficient({1}, -1);
  clip_coefficient(*stream_of(1),
                   {.squares = in, .max_norm = max_norm, .norm = norm, .coefficient = coefficient});
  return {norm.values[0], coefficient.values[0]};
}

TEST(ClipCoefficient, ScalesALargeNormDownToTheLimitAndLeavesASmallOne) {
  const Clipped large = clip({9, 0, 16}, 1);
  EXPECT_EQ(large.norm, 5);
  EXPECT_FLOAT_EQ(large.coefficient, 1 / (5 + 1e-6));
  EXPECT_FLOAT_EQ(clip({1e-12}, 1e-6).coefficient, 0.5);  // here PyTorch's 1e-6 matters
  EXPECT_EQ(clip({0.25}, 1).coefficient, 1);
  EXPECT_EQ(clip({}, 1).norm, 0);
  EXPECT_EQ(clip({0}, 1).coefficient, 1);
}

TEST(ClipCoefficient, WithoutALimitOnlyMeasures) {
  for (const double none : {0.0, -1.0}) {
    EXPECT_EQ(clip({9, 16}, none).norm, 5);
    EXPECT_EQ(clip({9, 16}, none).coefficient, 1);
  }
}

// As in PyTorch, a gradient that is NaN makes every parameter NaN, so the user sees it.
TEST(ClipCoefficient, NanIsHandedOn) {
  EXPECT_TRUE(std::isnan(clip({NAN}, 1).norm));
  EXPECT_TRUE(std::isnan(clip({NAN}, 1).coefficient));
  EXPECT_TRUE(std::isnan(clip({4}, NAN).coefficient));
  EXPECT_EQ(clip({INFINITY}, 1).coefficient, 0);
}

TEST(SquaredNorm, AnErrorNamesTheOperand) {
  const auto stream = stream_of(1);
  Owned<float> x({4}), one({1});
  Owned<double> doubles({4}), out({1});
  const auto expect = [](const auto& action, const char* words) {
    expect_error<ShapeError>(action, words);
  };
  expect([&] { squared_norm(*stream, {.x = doubles, .out = out}); }, "squared_norm: x");
  expect([&] { squared_norm(*stream, {.x = x, .out = one}); }, "squared_norm: out");
  expect([&] { squared_norm(*stream, {.x = x, .out = doubles}); }, "squared_norm: out");
  expect([&] { squared_norm(*stream, {.x = x, .out = doubles, .part = 2}); }, "squared_norm: out");
  expect([&] { clip_coefficient(*stream, {.squares = x, .norm = one, .coefficient = one}); },
         "clip_coefficient: squares");
  expect([&] { clip_coefficient(*stream, {.squares = out, .norm = x, .coefficient = one}); },
         "clip_coefficient: norm");
  expect([&] { clip_coefficient(*stream, {.squares = out, .norm = one, .coefficient = x}); },
         "clip_coefficient: coefficient");
}

}  // namespace
}  // namespace nanofsdp::ops::norm_test
