#include "plan/simulated.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>

#include "base/buffer.h"
#include "base/check.h"
#include "base/context.h"
#include "support/errors.h"

// Tests the device that records the work that is issued on it.

namespace nanofsdp::plan {
namespace {

using Kind = Issued::Kind;

const Device kSimulated[] = {Device::simulated_cpu, Device::simulated_cuda};

long memory_peak() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;  // in kilobytes or in bytes
}

TEST(SimulatedDevice, HasATerabyteWithoutTakingIt) {
  constexpr std::uint64_t kTerabyte = std::uint64_t{1} << 40;
  const long before = memory_peak();
  for (const Device device : kSimulated) {
    SimulatedRank context(0, 1, 1, device);
    const Buffer one(context.ledger, MemoryClass::activations, kTerabyte, device);
    const Buffer other(context.ledger, MemoryClass::activations, kTerabyte, device);
    EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved, 2 * std::int64_t{1} << 40);
    const auto first = one.tensor({1}).address();
    const auto second = other.tensor({1}).address();
    EXPECT_GE(first < second ? second - first : first - second, kTerabyte) << "they overlap";
  }
  EXPECT_LT(memory_peak() - before, 64 << 10);
}

TEST(SimulatedDevice, HasNoElementsAndSaysWhatToDo) {
  for (const Device device : kSimulated) {
    SimulatedRank context(0, 1, 1, device);
    const Buffer buffer(context.ledger, MemoryClass::activations, 24, device);
    nanofsdp::testing::expect_error<ShapeError>(
        [&] {
          buffer.tensor({2, 3}).f32();
        },
        "elements of a tensor [2, 3]: expected float32, got no values: a simulated device; enqueue "
        "on its stream what reads and writes them");
  }
}

TEST(SimulatedDevice, DoesNoWorkAndWritesDownItsCost) {
  SimulatedRank context(0, 1, 1, Device::simulated_cuda);
  bool done = false;
  context.compute->enqueue({.flops = 5, .read = 3, .written = 2}, [&] { done = true; });
  context.gather->enqueue({.payload = {.bytes = 7, .ranks = 2}}, [&] { done = true; });
  context.compute->synchronize();
  EXPECT_FALSE(done);
  const auto& all = context.issued;
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].stream, 0);
  EXPECT_EQ(all[0].cost.flops, 5);
  EXPECT_EQ(all[0].cost.read, 3);
  EXPECT_EQ(all[0].cost.written, 2);
  EXPECT_EQ(all[1].stream, 1);
  EXPECT_EQ(all[1].cost.payload.bytes, 7);
}

// Work without a stated cost writes the bytes that were allocated since the last work, and reads
// the same number.
TEST(SimulatedDevice, TakesTheBytesAllocatedWhereNoCostIsStated) {
  SimulatedRank context(0, 1, 1, Device::simulated_cpu);
  Stream& stream = *context.compute;
  stream.allocated(64);
  stream.allocated(32);
  stream.enqueue([] {});
  stream.enqueue([] {});
  stream.allocated(128);
  stream.enqueue({.written = 8}, [] {});
  stream.enqueue([] {});
  const double written[] = {96, 0, 8, 0}, read[] = {96, 0, 0, 0};
  const auto& all = context.issued;
  ASSERT_EQ(all.size(), 4u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].cost.written, written[i]) << i;
    EXPECT_EQ(all[i].cost.read, read[i]) << i;
    EXPECT_EQ(all[i].cost.launches, 1) << i;
  }
}

TEST(SimulatedDevice, WritesDownWhoWaitsForWhat) {
  SimulatedRank context(0, 1, 1, Device::simulated_cuda);
  context.gather->enqueue([] {});
  const Event gathered = context.gather->record();
  context.gather->enqueue([] {});
  context.compute->wait(gathered);
  gathered.synchronize();
  double when = 0;
  context.compute->note(when);
  const auto& all = context.issued;
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[2].kind, Kind::wait);
  EXPECT_EQ(all[2].stream, 0);
  EXPECT_EQ(all[3].kind, Kind::block);
  for (const std::size_t i : {2, 3}) {
    EXPECT_EQ(all[i].awaited, 1);
    EXPECT_EQ(all[i].point, 1u) << "the first work, not the second";
  }
  EXPECT_EQ(all[4].kind, Kind::note);
  EXPECT_EQ(all[4].when, &when);
}

// The main thread does a CPU's work itself, so a wait for it ends at once.
TEST(SimulatedDevice, HasAnInlineComputeStreamOnACpu) {
  for (const Device device : kSimulated) {
    SimulatedRank context(0, 1, 1, device);
    context.compute->enqueue([] {});
    context.gather->wait(context.compute->record());
    EXPECT_EQ(context.issued.size(), device == Device::simulated_cpu ? 1u : 2u);
  }
}

}  // namespace
}  // namespace nanofsdp::plan
