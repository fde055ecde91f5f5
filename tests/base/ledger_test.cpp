#include "base/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "support/errors.h"

namespace nanofsdp {
namespace {

using testing::expect_error;
constexpr auto kShards = MemoryClass::parameter_shards;
constexpr auto kActivations = MemoryClass::activations;

TEST(Ledger, CountsEachClassNowAndAtItsPeak) {
  Ledger ledger;
  ledger.reserve(kShards, 100);
  ledger.reserve(kActivations, 50);
  ledger.reserve(kShards, -100);
  ledger.reserve(kShards, 30);
  EXPECT_EQ(ledger.count(kShards).reserved, 30);
  EXPECT_EQ(ledger.count(kShards).reserved_peak, 100);
  EXPECT_EQ(ledger.count(kActivations).reserved, 50);
  EXPECT_EQ(ledger.count(MemoryClass::optimizer).reserved_peak, 0);
}

// This also holds for buffers without memory, because traces tell buffers apart by their addresses.
TEST(Ledger, GivesNoTwoBuffersTheSameAddress) {
  Ledger ledger;
  std::uint64_t end = 0;
  for (const std::uint64_t bytes : {0, 1, 63, 64, 65, 4096, 4, 4}) {
    const std::uint64_t begin = ledger.addresses(bytes);
    EXPECT_GE(begin, end) << bytes;
    end = begin + std::max<std::uint64_t>(bytes, 1);
  }
}

// The classes need not have their peaks at the same moment, so the sum of their peaks is not the
// peak of their sum.
TEST(Ledger, ThePeakOfTheTotalIsAMomentNotASumOfPeaks) {
  Ledger ledger;
  ledger.reserve(kShards, 100);
  ledger.reserve(kShards, -100);
  ledger.reserve(kActivations, 70);
  EXPECT_EQ(ledger.total(), 70);
  EXPECT_EQ(ledger.total_peak(), 100);
}

TEST(Ledger, InUseIsCountedApartFromReserved) {
  Ledger ledger;
  ledger.reserve(kShards, 100);
  ledger.use(kShards, 60);
  ledger.use(kShards, -60);
  ledger.use(kShards, 40);
  const MemoryCount count = ledger.count(kShards);
  EXPECT_EQ(count.reserved, 100);
  EXPECT_EQ(count.in_use, 40);
  EXPECT_EQ(count.in_use_peak, 60);
  EXPECT_EQ(ledger.total(), 100);
}

TEST(Ledger, CountsAllocationsNotReleases) {
  Ledger ledger;
  ledger.reserve(kShards, 8);
  ledger.reserve(kShards, -8);
  ledger.reserve(kActivations, 8);
  EXPECT_EQ(ledger.allocations(), 2);
}

TEST(Ledger, EveryClassHasAName) {
  std::set<std::string_view> names;
  for (const MemoryClass memory_class : kMemoryClasses) names.insert(name_of(memory_class));
  EXPECT_EQ(names.size(), kMemoryClasses.size());
}

TEST(Ledger, StreamsMayCountAtOnce) {
  Ledger ledger;
  const auto work = [&ledger] {
    for (int i = 0; i < 10000; ++i) {
      ledger.reserve(kShards, 2);
      ledger.reserve(kShards, -1);
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(ledger.total(), 20000);
  EXPECT_EQ(ledger.allocations(), 20000);
}

TEST(Buffer, IsZeroedAlignedAndInTheLedgerWhileItLives) {
  Ledger ledger;
  {
    const Buffer buffer(ledger, kShards, 1000);
    const auto bytes = buffer.tensor({250}).span<float>();
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](float x) { return x == 0; }));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64, 0u);
    EXPECT_EQ(ledger.count(kShards).reserved, 1000);
    EXPECT_EQ(ledger.count(kShards).in_use, 1000);
  }
  EXPECT_EQ(ledger.count(kShards).reserved, 0);
  EXPECT_EQ(ledger.count(kShards).in_use, 0);
  EXPECT_EQ(ledger.count(kShards).reserved_peak, 1000);
}

TEST(Buffer, OfAPoolCountsAsInUseOnlyWhereItsOwnerSaysSo) {
  Ledger ledger;
  const Buffer buffer(ledger, kShards, 1000, Device::cpu, Buffer::Use::by_owner);
  EXPECT_EQ(ledger.count(kShards).reserved, 1000);
  EXPECT_EQ(ledger.count(kShards).in_use, 0);
}

TEST(Buffer, MovesWithItsUse) {
  for (const Buffer::Use use : {Buffer::Use::whole, Buffer::Use::by_owner}) {
    Ledger ledger;
    const std::int64_t in_use = use == Buffer::Use::whole ? 100 : 0;
    {
      Buffer first(ledger, kShards, 100, Device::cpu, use);
      const Buffer second(std::move(first));
      EXPECT_EQ(ledger.count(kShards).in_use, in_use);
      Buffer third(ledger, kShards, 100, Device::cpu, use);
      third = Buffer(ledger, kShards, 100, Device::cpu, use);
      EXPECT_EQ(ledger.count(kShards).in_use, 2 * in_use);
    }
    EXPECT_EQ(ledger.count(kShards).in_use, 0);
    EXPECT_EQ(ledger.count(kShards).reserved, 0);
  }
}

TEST(Buffer, MovesWithoutBeingCountedTwice) {
  Ledger ledger;
  Buffer first(ledger, kShards, 100);
  void* const memory = first.tensor({25}).raw();
  Buffer second(std::move(first));
  EXPECT_EQ(second.tensor({25}).raw(), memory);
  EXPECT_EQ(ledger.total(), 100);
  Buffer third(ledger, kActivations, 40);
  third = std::move(second);  // frees its own memory
  EXPECT_EQ(third.tensor({25}).raw(), memory);
  EXPECT_EQ(ledger.total(), 100);
  EXPECT_EQ(ledger.count(kActivations).reserved, 0);
  Buffer& same = third;
  third = std::move(same);
  EXPECT_EQ(third.bytes(), 100u);
  third = Buffer();
  EXPECT_EQ(ledger.total(), 0);
}

// These sanitizers end the process.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The error is the one that the header promises, not the library's. A buffer that has failed to
// grow is empty, and may grow again.
TEST(Buffer, IsEmptyIfThereIsNotEnoughMemory) {
  constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 60;
  Ledger ledger;
  expect_error<Error>([&] { Buffer(ledger, kShards, kTooMuch); }, "memory: expected 1152921504606");
  EXPECT_EQ(ledger.allocations(), 0);
  for (const Buffer::Use use : {Buffer::Use::whole, Buffer::Use::by_owner}) {
    Buffer buffer(ledger, kShards, 256, Device::cpu, use);
    expect_error<Error>([&] { buffer.grow(kTooMuch); }, "use more ranks or less batch");
    EXPECT_EQ(buffer.bytes(), 0u);
    EXPECT_EQ(ledger.total(), 0);
    EXPECT_EQ(ledger.count(kShards).in_use, 0);
    EXPECT_THROW(buffer.tensor({64}), ShapeError);
    buffer.grow(64);
    EXPECT_EQ(buffer.tensor({16}).f32()[15], 0);
    EXPECT_EQ(ledger.total(), 64);
  }
  EXPECT_EQ(ledger.total(), 0);
}
#endif

TEST(Buffer, RefusesATensorThatEndsBehindIt) {
  Ledger ledger;
  const Buffer buffer(ledger, kShards, 64);
  EXPECT_EQ(buffer.tensor({8}, DType::bfloat16, 48).bytes(), 16u);
  expect_error<ShapeError>(
      [&] { buffer.tensor({13}, DType::float32, 16); },
      "tensor [13] in a buffer: expected at most 64 bytes, got 52 from byte 16");
}

}  // namespace
}  // namespace nanofsdp
