#include "ops/copy_chunks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::float8_test {
namespace {

using testing::expect_error;
using testing::Owned;
using testing::random_tensor;
using testing::stream_of;
using testing::threads_to_try;

using Bytes = std::vector<std::uint8_t>;

// One message, written element by element.
Bytes message_of(std::span<const float> x) {
  Bytes bytes;
  for (std::size_t first = 0; first < x.size(); first += 128) {
    const auto block = x.subspan(first, std::min<std::size_t>(128, x.size() - first));
    float largest = 0x1p-100f;
    for (const float value : block) {
      if (std::isnan(value) || std::fabs(value) > largest) largest = std::fabs(value);
      if (std::isnan(largest)) break;
    }
    const float scale = largest / 448;
    std::uint8_t raw[4];
    std::memcpy(raw, &scale, 4);
    bytes.insert(bytes.end(), raw, raw + 4);
    for (const float value : block) bytes.push_back(to_float8(value * (448 / largest)).bits);
  }
  bytes.resize((bytes.size() + 3) / 4 * 4);
  return bytes;
}

// The elements that a message gives.
std::vector<float> elements_of(const Bytes& message, std::size_t n) {
  std::vector<float> elements;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t block = i / 128 * 132;
    float scale;
    std::memcpy(&scale, &message[block], 4);
    elements.push_back(from_float8({message[block + 4 + i % 128]}) * scale);
  }
  return elements;
}

Owned<float> numbers(std::int64_t n, std::uint32_t seed = 1) {
  Owned<float> x = random_tensor({n}, seed, 1e3f);
  for (std::size_t i = 0; i < x.values.size(); i += 3) x.values[i] *= 1e-5f;
  for (std::size_t i = 0; i < x.values.size(); i += 7) x.values[i] = 0;
  return x;
}

Owned<float8_e4m3> messages_of(Tensor x, std::int64_t message, int threads = 1) {
  const std::int64_t bytes = x.numel() / message * float8_bytes(message);
  Owned<float8_e4m3> out({bytes});
  cast(*stream_of(threads), {.in = x, .out = out, .message = message});
  return out;
}

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

const std::vector<std::int64_t> kSizes{1, 2, 4, 31, 127, 128, 129, 132, 256, 300, 1000, 20003};

TEST(Float8, AMessageHasAScaleForEach128Elements) {
  EXPECT_EQ(float8_bytes(0), 0);
  EXPECT_EQ(float8_bytes(1), 8);
  EXPECT_EQ(float8_bytes(4), 8);
  EXPECT_EQ(float8_bytes(128), 132);
  EXPECT_EQ(float8_bytes(129), 140);
  EXPECT_EQ(float8_bytes(256), 264);
  for (const std::int64_t n : kSizes) {
    EXPECT_EQ(float8_bytes(n), std::ssize(message_of(numbers(n).values))) << n;
  }
}

// Each message is rounded by itself, in whole blocks and in a short one.
TEST(Float8, AShardIsRoundedBlockByBlock) {
  for (const std::int64_t n : kSizes) {
    for (const std::int64_t messages : {1, 2, 5}) {
      for (const int threads : threads_to_try({1, 2, 3})) {
        SCOPED_TRACE(fmt::format("{} messages of {}, {} threads", messages, n, threads));
        Owned<float> x = numbers(messages * n);
        const auto got = messages_of(x, n, threads);
        Owned<float> wide({messages * n}, 7.0f);
        Tensor in(const_cast<float8_e4m3*>(got.values.data()), got.shape, DType::float8_e4m3,
                  testing::kDevice);
        cast(*stream_of(threads), {.in = in, .out = wide, .message = n});
        for (std::int64_t m = 0; m < messages; ++m) {
          const Bytes want = message_of(std::span(x.values).subspan(m * n, n));
          const std::vector<float> elements = elements_of(want, n);
          const std::int64_t end = n + (n + 127) / 128 * 4;  // then up to 3 bytes of no meaning
          for (std::int64_t i = 0; i < end; ++i) {
            ASSERT_EQ(got.values[m * float8_bytes(n) + i].bits, want[i]) << i;
          }
          for (std::int64_t i = 0; i < n; ++i) {
            ASSERT_EQ(bits(wide.values[m * n + i]), bits(elements[i])) << i;
          }
        }
      }
    }
  }
}

// 3 bits of mantissa: an element errs by 1/16 of itself at most, or by 2^-10 of 448 parts of the
// largest.
TEST(Float8, AnElementErrsByASixteenth) {
  Owned<float> x = numbers(1000);
  Owned<float8_e4m3> messages = messages_of(x, 500);
  Owned<float> wide({1000});
  cast(*stream_of(), {.in = messages, .out = wide, .message = 500});
  for (std::size_t i = 0; i < 1000; ++i) {
    const float allowed = std::max(std::fabs(x.values[i]) / 16, 1e3f / 448 / 1024);
    ASSERT_NEAR(wide.values[i], x.values[i], allowed * 1.0001f);
  }
}

// Zeros, numbers whose scale would be no float32, and the largest ones.
TEST(Float8, ScalesNeitherOverflowNorDivideByZero) {
  for (const float x : {0.0f, -0.0f, 1e-45f, 0x1p-126f, 0x1p-101f, 3e38f}) {
    Owned<float> block({100}, x);
    block.values[3] = -x;
    Owned<float8_e4m3> message = messages_of(block, 100);
    Owned<float> wide({100}, 7.0f);
    cast(*stream_of(), {.in = message, .out = wide, .message = 100});
    for (std::size_t i = 0; i < 100; ++i) {
      ASSERT_NEAR(wide.values[i], block.values[i], x / 1e6 + 1e-30) << x;
      if (x == 0) {
        ASSERT_EQ(bits(wide.values[i]), bits(block.values[i]));
      }
    }
  }
}

TEST(Float8, AnInfinityOrNanMakesItsBlockNan) {
  for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    Owned<float> x = numbers(300);
    x.values[130] = bad;
    Owned<float8_e4m3> message = messages_of(x, 300);
    Owned<float> wide({300});
    cast(*stream_of(), {.in = message, .out = wide, .message = 300});
    for (std::size_t i = 0; i < 300; ++i) {
      ASSERT_EQ(std::isnan(wide.values[i]), i >= 128 && i < 256) << i;
    }
  }
}

struct Chunks {
  std::int64_t numel, chunk, stride, first;
};

// Chunks inside one block, over several, and across the end of a block; a short last chunk; sizes
// of packs and others; more elements than a block of a kernel copies.
const std::vector<Chunks> kChunks{{1, 1, 1, 0},
                                  {12, 4, 12, 4},
                                  {11, 4, 9, 3},
                                  {300, 100, 140, 8},
                                  {300, 100, 141, 33},
                                  {240, 60, 256, 100},
                                  {600, 150, 400, 1},
                                  {3000, 1, 3, 2},
                                  {40001, 10001, 10200, 130},
                                  {16384, 8192, 8320, 128}};

TEST(Float8, ChunksOfAParameterAreReadOutOfMessages) {
  for (const Chunks& c : kChunks) {
    SCOPED_TRACE(fmt::format("{} elements in chunks of {}, from {} in messages of {}", c.numel,
                             c.chunk, c.first, c.stride));
    const std::int64_t messages = (c.numel + c.chunk - 1) / c.chunk;
    Owned<float> x = numbers(messages * c.stride);
    Owned<float8_e4m3> row = messages_of(x, c.stride);
    Owned<float> all({messages * c.stride});
    cast(*stream_of(), {.in = row, .out = all, .message = c.stride});
    for (const int threads : threads_to_try({1, 3})) {
      Owned<float> whole({c.numel + 5}, 7.0f);
      copy_chunks(*stream_of(threads), {.row = row,
                                        .whole = whole.view().slice(0, c.numel),
                                        .first = c.first,
                                        .chunk = c.chunk,
                                        .stride = c.stride});
      for (std::int64_t e = 0; e < c.numel; ++e) {
        const std::int64_t at = e / c.chunk * c.stride + c.first + e % c.chunk;
        ASSERT_EQ(bits(whole.values[e]), bits(all.values[at])) << e;
      }
      for (std::int64_t e = c.numel; e < c.numel + 5; ++e) ASSERT_EQ(whole.values[e], 7.0f);
    }
  }
}

// A GPU computes with bfloat16, so it widens to that.
TEST(Float8, OnAGpuElementsAreAlsoWidenedToBfloat16) {
  Owned<float> x = numbers(1000), wide({1000});
  Owned<float8_e4m3> messages = messages_of(x, 500);
  Owned<bfloat16> half({1000});
  const Cast to_half{.in = messages, .out = half, .message = 500};
  if (!has_bfloat16_arithmetic(testing::kDevice)) {
    return expect_error<ShapeError>([&] { cast(*stream_of(), to_half); }, "copy_chunks: whole");
  }
  cast(*stream_of(), {.in = messages, .out = wide, .message = 500});
  cast(*stream_of(), to_half);
  for (std::size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(half.values[i].bits, to_bfloat16(wide.values[i]).bits);
  }
}

// A cast takes whole messages and exactly their elements, in both directions.
TEST(Float8, ACastHasAsManyElementsAsItsMessages) {
  for (const std::int64_t message : {1, 3, 4, 127, 128, 129, 300}) {
    for (const std::int64_t count : {1, 2, 3}) {
      const std::int64_t n = count * message, bytes = count * float8_bytes(message);
      Owned<float> x = numbers(n + 1), wide({n + 1});
      Owned<float8_e4m3> row({bytes + 4});
      const auto both = [&](std::int64_t elements, std::int64_t size) {
        const Tensor part = row.view().slice(0, size);
        cast(*stream_of(), {x.view().slice(0, elements), part, message});
        cast(*stream_of(), {part, wide.view().slice(0, elements), message});
      };
      both(n, bytes);
      for (const auto& [elements, size] :
           {std::pair{n, bytes + 4}, {n, bytes - 4}, {n - 1, bytes}, {n + 1, bytes}}) {
        const Tensor part = row.view().slice(0, size), some = wide.view().slice(0, elements);
        if (elements == 0 && size == 0) continue;
        SCOPED_TRACE(fmt::format("{} elements, {} bytes", elements, size));
        EXPECT_THROW(cast(*stream_of(), {some, part, message}), ShapeError);
        EXPECT_THROW(cast(*stream_of(), {part, some, message}), ShapeError);
      }
    }
  }
}

TEST(Float8, AnErrorNamesTheOperand) {
  Owned<float> x({256});
  Owned<float8_e4m3> messages({264});
  Owned<bfloat16> halves({256});
  const auto expect = [&](Tensor in, Tensor out, std::int64_t message, const char* words) {
    expect_error<ShapeError>(
        [&] { cast(*stream_of(), {.in = in, .out = out, .message = message}); }, words);
  };
  cast(*stream_of(), {.in = x, .out = messages, .message = 256});
  expect(x, messages, 0, "cast: out: expected float8_e4m3 of 2048 elements");
  expect(x, messages, 100, "cast: in: expected float32 of 200 elements");
  expect(x, messages, 2, "cast: out: expected float8_e4m3 of 1024 elements");
  expect(halves, messages, 256, "cast: in: expected float32");
  expect(messages, x, 0, "cast: in: expected float8_e4m3 of 2048 elements");
  expect(messages, x, -1, "cast: in: expected float8_e4m3 of 2048 elements");
  expect(messages.view().slice(0, 263), x, 256, "cast: in: expected float8_e4m3 of 264 elements");
}

}  // namespace
}  // namespace nanofsdp::ops::float8_test
