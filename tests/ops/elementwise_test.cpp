#include "ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::elementwise_test {
namespace {

using testing::expect_error;
using testing::Owned;
using testing::random_tensor;
using testing::stream_of;
using testing::threads_to_try;
using Floats = testing::Values<float>;

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

// Runs `test(n, stream)` with several numbers of threads, for sizes around a vector, a block of a
// kernel and a thread's share.
template <class Test>
void for_sizes(const Test& test) {
  for (const std::int64_t n : {0, 1, 3, 15, 16, 17, 1003, 1024, 1025, 16384, 50001}) {
    for (const int threads : threads_to_try({1, 2, 3})) {
      SCOPED_TRACE("n=" + std::to_string(n) + " threads=" + std::to_string(threads));
      test(n, *stream_of(threads));
    }
  }
}

TEST(Elementwise, AddWritesTheSumAlsoOverEitherOperand) {
  for_sizes([](std::int64_t n, Stream& stream) {
    Owned<float> a = random_tensor({n}, 1), b = random_tensor({n}, 2), out({n}, kPoison);
    const Floats a_before = a.values, b_before = b.values;
    Floats want;
    for (std::size_t i = 0; i < a.values.size(); ++i) want.push_back(a.values[i] + b.values[i]);
    add(stream, {.a = a, .b = b, .out = out});
    EXPECT_EQ(out.values, want);
    EXPECT_EQ(a.values, a_before);
    EXPECT_EQ(b.values, b_before);
    Owned<float> over = a;
    add(stream, {.a = over, .b = b, .out = over});
    EXPECT_EQ(over.values, want);
    over = b;
    add(stream, {.a = a, .b = over, .out = over});
    EXPECT_EQ(over.values, want);
    over = a;
    add(stream, {.a = over, .b = over, .out = over});
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(over.values[i], 2 * a_before[i]);
  });
}

TEST(Elementwise, ScaleMultipliesInPlace) {
  for_sizes([](std::int64_t n, Stream& stream) {
    Owned<float> x = random_tensor({n}, 1);
    Floats want;
    for (const float value : x.values) want.push_back(value * 0.3f);
    scale(stream, {.x = x, .factor = 0.3f});
    EXPECT_EQ(x.values, want);
  });
}

TEST(Elementwise, FillWritesEveryElementOfAnyType) {
  for_sizes([](std::int64_t n, Stream& stream) {
    Owned<float> x({n}, kPoison);
    Owned<double> y({n}, kPoison);
    fill(stream, {.x = x, .value = 0.25f});
    fill(stream, {.x = y, .value = 0.25f});
    EXPECT_EQ(x.values, Floats(static_cast<std::size_t>(n), 0.25f));
    EXPECT_EQ(y.values, testing::Values<double>(static_cast<std::size_t>(n), 0.25));
    Owned<bfloat16> z({n});
    fill(stream, {.x = z, .value = kPoison});
    for (const bfloat16 value : z.values) EXPECT_EQ(value.bits, 0x7fc0);
    fill(stream, {.x = z, .value = -0.3f});  // rounding moves it away from 0
    for (const bfloat16 value : z.values) EXPECT_EQ(value.bits, 0xbe9a);
  });
}

// The caller gets the error, whatever the number of threads, and no element changes.
TEST(Elementwise, FillRefusesEveryOtherType) {
  for_sizes([](std::int64_t n, Stream& stream) {
    Owned<float8_e4m3> x({n}, float8_e4m3{3});
    Owned<std::int32_t> y({n}, 3);
    expect_error<ShapeError>([&] { fill(stream, {.x = x, .value = 1}); },
                             "fill: x: expected float32 of " + std::to_string(n) + " elements");
    expect_error<ShapeError>([&] { fill(stream, {.x = y, .value = 1}); },
                             "fill: x: expected float32");
    for (const float8_e4m3 value : x.values) ASSERT_EQ(value.bits, 3);
    for (const std::int32_t value : y.values) ASSERT_EQ(value, 3);
  });
}

TEST(Elementwise, CopyTakesAnyType) {
  for_sizes([](std::int64_t n, Stream& stream) {
    Owned<float> x = random_tensor({n}, 1), y({n}, kPoison);
    copy(stream, {.in = x, .out = y});
    EXPECT_EQ(y.values, x.values);
    Owned<std::int32_t> from({n}), to({n}, -1);
    std::iota(from.values.begin(), from.values.end(), 7);
    copy(stream, {.in = from, .out = to});
    EXPECT_EQ(to.values, from.values);
    Owned<bfloat16> half({n}, bfloat16{0x3f81}), other({n});
    copy(stream, {.in = half, .out = other});
    for (const bfloat16 value : other.values) EXPECT_EQ(value.bits, 0x3f81);
  });
}

TEST(Elementwise, AccumulateAddsToWhatIsThere) {
  for_sizes([](std::int64_t n, Stream& stream) {
    Owned<float> in = random_tensor({n}, 1), out = random_tensor({n}, 2);
    const Floats in_before = in.values;
    Floats want;
    for (std::size_t i = 0; i < in_before.size(); ++i) want.push_back(out.values[i] + in.values[i]);
    accumulate(stream, {.in = in, .out = out});
    EXPECT_EQ(out.values, want);
    EXPECT_EQ(in.values, in_before);
  });
}

TEST(Elementwise, ArangeStartsAgainAfterAPeriod) {
  Owned<std::int32_t> x({7}, -1);
  arange(*stream_of(1), {.x = x, .period = 3});
  EXPECT_EQ(x.values, (testing::Values<std::int32_t>{0, 1, 2, 0, 1, 2, 0}));
  expect_error<Error>([&] { arange(*stream_of(1), {.x = x, .period = 0}); }, "arange: period");
}

// Only the key decides, not the number of threads and not the place of x and y.
TEST(Dropout, KeepsAndScalesWhatTheKeyKeeps) {
  for (const Shape& shape :
       {Shape{1, 1}, Shape{5}, Shape{3, 17}, Shape{64, 5, 130}, Shape{2, 40000}, Shape{1030}}) {
    for (const float p : {0.0f, 0.1f, 0.5f, 0.9f}) {
      for (const int threads : threads_to_try({1, 2})) {
        const DropoutKey key{.seed = 1337, .iteration = 5, .first_row = 40, .site = 3};
        Owned<float> x = random_tensor(shape, 1), y(shape, kPoison);
        const Floats before = x.values;
        dropout(*stream_of(threads), {.x = x, .y = y, .p = p, .key = key});
        EXPECT_EQ(x.values, before);
        const std::int64_t n = shape.numel() / shape[0];
        for (std::int64_t i = 0; i < shape.numel(); ++i) {
          const bool kept =
              keep(row_key(key, i / n), static_cast<std::uint32_t>(i % n), drop_threshold(p));
          ASSERT_EQ(y.values[i], kept ? x.values[i] * (1 / (1 - p)) : 0) << i << " p=" << p;
        }
        dropout(*stream_of(threads), {.x = x, .y = x, .p = p, .key = key});
        EXPECT_EQ(x.values, y.values) << "y may alias x";
      }
    }
  }
}

TEST(Dropout, KeepsTheMean) {
  Owned<float> ones({100, 1000}, 1.0f), y({100, 1000});
  dropout(*stream_of(1), {.x = ones, .y = y, .p = 0.2f});
  const double mean = std::accumulate(y.values.begin(), y.values.end(), 0.0) / 1e5;
  EXPECT_NEAR(mean, 1, 5 * 0.5 / std::sqrt(1e5));  // five standard deviations of 0.5 an element
}

// Ranks that share a batch draw the masks of one rank that has the whole batch.
TEST(Dropout, RowsMayBeCutAnywhere) {
  constexpr std::int64_t rows = 6, n = 50;
  Owned<float> x = random_tensor({rows, n}, 1), whole({rows, n}), parts({rows, n});
  dropout(*stream_of(1), {.x = x, .y = whole, .p = 0.5f, .key = {.seed = 1}});
  for (std::int64_t cut = 1; cut < rows; ++cut) {
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, {cut, rows}}) {
      const auto piece = [begin = begin, count = end - begin](Tensor t) {
        return t.slice(begin * n, count * n).view({count, n});
      };
      dropout(
          *stream_of(1),
          {.x = piece(x), .y = piece(parts), .p = 0.5f, .key = {.seed = 1, .first_row = begin}});
    }
    EXPECT_EQ(parts.values, whole.values) << cut;
  }
}

TEST(Dropout, WhatIsDroppedIsZeroEvenIfItWasNoNumber) {
  Owned<float> x({1, 1000}, kPoison), y({1, 1000});
  dropout(*stream_of(1), {.x = x, .y = y, .p = 0.5f});
  for (const float value : y.values) EXPECT_TRUE(value == 0 || std::isnan(value));
  EXPECT_NE(std::count(y.values.begin(), y.values.end(), 0.0f), 0);
}

TEST(Elementwise, AnErrorNamesTheOperand) {
  const auto stream = stream_of(1);
  Owned<float> x({4, 3}), y({4, 3}), wrong({4, 2});
  Owned<double> doubles({4, 3});
  const auto expect = [](const auto& action, const char* words) {
    expect_error<ShapeError>(action, words);
  };
  expect([&] { add(*stream, {.a = wrong, .b = x, .out = y}); },
         "add: a: expected float32 of 12 elements");
  expect([&] { add(*stream, {.a = x, .b = wrong, .out = y}); }, "add: b");
  expect([&] { add(*stream, {.a = x, .b = x, .out = doubles}); }, "add: out");
  expect([&] { scale(*stream, {.x = doubles}); }, "scale: x");
  expect([&] { copy(*stream, {.in = wrong, .out = y}); }, "copy: in");
  expect([&] { copy(*stream, {.in = doubles, .out = y}); }, "copy: in");
  expect([&] { accumulate(*stream, {.in = wrong, .out = y}); }, "accumulate: in");
  expect([&] { accumulate(*stream, {.in = doubles, .out = y}); }, "accumulate: in");
  expect([&] { arange(*stream, {.x = x}); }, "arange: x");
  expect([&] { dropout(*stream, {.x = x, .y = wrong}); }, "dropout: y");
  expect_error<Error>([&] { dropout(*stream, {.x = x, .y = y, .p = 1}); }, "dropout");
}

}  // namespace
}  // namespace nanofsdp::ops::elementwise_test
