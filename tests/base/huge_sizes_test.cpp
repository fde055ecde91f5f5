#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/check.h"
#include "base/context.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp {
namespace {

using testing::expect_error;
using Wide = __int128;  // holds sums and products of all numbers below

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Numbers around 0, and around the ends of what the types hold.
const std::vector<std::int64_t> kSizes = {
    0, 1, 2, 9, 10, 11, 1LL << 30, 1LL << 31, 1LL << 32, 1LL << 58, kMost - 10, kMost - 1, kMost};

// A shape counts its elements, or is refused: it never has another number.
TEST(HugeSizes, AShapeHasFewerThan2To60Elements) {
  std::mt19937 words(1);
  for (int run = 0; run < 20000; ++run) {
    std::vector<std::int64_t> dims(words() % 5);
    for (std::int64_t& dim : dims)
      dim = words() % 2 == 0 ? kSizes[words() % kSizes.size()] : std::int64_t(words() % 5);
    Wide product = 1;
    for (const std::int64_t dim : dims) product = std::min<Wide>(product, kMost) * dim;
    const bool any_zero = std::ranges::find(dims, 0) != dims.end();
    if (product < Wide{1} << 60 && !any_zero) {
      ASSERT_EQ(Shape(dims).numel(), static_cast<std::int64_t>(product));
    } else if (!any_zero) {
      expect_error<ShapeError>([&] { Shape{std::span<const std::int64_t>(dims)}; },
                               "fewer than 2^60 elements");
    }
  }
  EXPECT_EQ((Shape{1 << 20, 0, 1 << 20}).numel(), 0);
}

// with() gives the shape that its dimensions would give, and throws what that would throw.
TEST(HugeSizes, AShapeWithAnotherDimensionIsCheckedLikeAnyOther) {
  for (const std::vector<std::int64_t>& dims :
       {std::vector<std::int64_t>{}, {3}, {2, 3}, {2, 3, 4}, {2, 3, 4, 5}}) {
    const Shape shape{std::span<const std::int64_t>(dims)};
    for (int i = -2; i < 7; ++i) {
      if (i < 0 || i > shape.rank() || i > 3) {
        expect_error<ShapeError>([&] { shape.with(i, 7); }, "dimension of " + shape.str());
        continue;
      }
      std::vector<std::int64_t> changed = dims;
      changed.resize(std::max<std::size_t>(dims.size(), static_cast<std::size_t>(i) + 1));
      changed[static_cast<std::size_t>(i)] = 7;
      EXPECT_EQ(shape.with(i, 7), Shape(changed));
      expect_error<ShapeError>([&] { shape.with(i, -1); }, "no negative dimension");
      expect_error<ShapeError>([&] { shape.with(i, kMost); }, "2^60");
    }
  }
}

TEST(HugeSizes, ASliceLiesInItsTensorOrIsRefused) {
  testing::Owned<float> owner({10});
  for (const std::int64_t sign : {1, -1}) {
    for (const std::int64_t size : kSizes) {
      for (const std::int64_t count : kSizes) {
        const std::int64_t begin = sign * size;
        if (begin >= 0 && Wide{begin} + count <= 10) {
          EXPECT_EQ(owner.view().slice(begin, count).numel(), count);
        } else {
          expect_error<ShapeError>([&] { owner.view().slice(begin, count); },
                                   "slice of a tensor [10]: expected a range within [0, 10)");
          expect_error<ShapeError>([&] { owner.view().slice(begin, -count - 1); }, "slice");
        }
      }
    }
  }
}

TEST(HugeSizes, ATensorLiesInItsBufferOrIsRefused) {
  Ledger ledger;
  const Buffer buffer(ledger, MemoryClass::activations, 40);
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{36}, std::uint64_t{40},
                                     std::uint64_t{44}, kLast - 39, kLast - 3, kLast}) {
    for (const std::int64_t n : {0L, 1L, 9L, 10L, 11L, 1L << 59, (1L << 60) - 1}) {
      for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
        const Wide bytes = Wide{n} * static_cast<Wide>(size_of(dtype));
        if (Wide{offset} + bytes <= 40) {
          EXPECT_EQ(buffer.tensor({n}, dtype, offset).numel(), n);
        } else {
          expect_error<ShapeError>([&] { buffer.tensor({n}, dtype, offset); }, "in a buffer");
        }
      }
    }
  }
}

// No size may wrap around to a small one: then a caller would write behind its memory.
TEST(HugeSizes, MemoryThatNoMachineHasIsAnError) {
  constexpr std::size_t kLast = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {kLast, kLast - 3, kLast - 63, kLast - 64, kLast / 2 + 1}) {
    expect_error<Error>([&] { allocate_memory(Device::cpu, bytes); }, "memory: expected");
    Ledger ledger;
    expect_error<Error>([&] { Buffer(ledger, MemoryClass::optimizer, bytes); }, "memory: expected");
    EXPECT_EQ(ledger.total_peak(), 0);
  }
  Context context;
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    for (const std::int64_t numel : {std::int64_t{-1}, std::int64_t{-1} << 61, kMost, kMost / 4,
                                     std::int64_t{1} << 61, std::int64_t{1} << 62}) {
      expect_error<ShapeError>([&] { context.buffer(MemoryClass::activations, numel, dtype); },
                               "expected");
      EXPECT_EQ(context.ledger.total_peak(), 0);
    }
  }
}

}  // namespace
}  // namespace nanofsdp
