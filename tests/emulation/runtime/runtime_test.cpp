#include "cuda_runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "asan.h"

// Tests that the emulated CUDA is strict. Without that, the tests on it would show less.

namespace nanofsdp::testing {
namespace {

using Bytes = std::vector<unsigned char>;

// Each test has objects of its own, so objects of an earlier test are not missed.
class EmulatedCuda : public ::testing::Test {
 protected:
  EmulatedCuda() {
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
    cudaStreamCreateWithPriority(&a_, cudaStreamNonBlocking, 0);
    cudaStreamCreateWithPriority(&b_, cudaStreamNonBlocking, 0);
  }
  ~EmulatedCuda() override {
    cudaStreamDestroy(a_);
    cudaStreamDestroy(b_);
  }

  static unsigned char* allocate(std::size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    return static_cast<unsigned char*>(memory);
  }

  Bytes fetch(const unsigned char* from, std::size_t bytes) {
    Bytes values(bytes);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), from, bytes, cudaMemcpyDefault, a_), cudaSuccess);
    return values;
  }

  // The value of a byte that both streams write, `a_` a one and `b_` a two, when the host has
  // waited for `a_`.
  Bytes::value_type last_of_two_writers(bool ordered) {
    unsigned char* memory = allocate(1);
    cudaMemsetAsync(memory, 1, 1, a_);
    if (ordered) {
      cudaEvent_t event = nullptr;
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      cudaEventRecord(event, a_);
      cudaStreamWaitEvent(b_, event, 0);
      cudaEventDestroy(event);
    }
    cudaMemsetAsync(memory, 2, 1, b_);
    cudaStreamSynchronize(a_);
    cudaStreamSynchronize(b_);
    const auto last = fetch(memory, 1)[0];
    cudaFree(memory);
    return last;
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
};

using EmulatedCudaDeathTest = EmulatedCuda;

constexpr const char* kByTheHost = "the host touched device memory";
constexpr const char* kOfNobody = "freed, or behind an allocation|AddressSanitizer";

TEST_F(EmulatedCudaDeathTest, TheHostMustNotTouchDeviceMemory) {
  const volatile unsigned char* memory = allocate(100);
  EXPECT_DEATH(static_cast<void>(memory[0]), kByTheHost);
  cudaMemset(const_cast<unsigned char*>(memory), 0, 100);
  cudaDeviceSynchronize();
  EXPECT_DEATH(static_cast<void>(memory[99]), kByTheHost);
}

TEST_F(EmulatedCudaDeathTest, DeviceWorkMustNotTouchFreedMemory) {
  unsigned char* memory = allocate(100);
  cudaMemsetAsync(memory, 0, 100, a_);
  cudaFree(memory);
  EXPECT_DEATH(cudaStreamSynchronize(a_), kOfNobody);
}

TEST_F(EmulatedCudaDeathTest, DeviceWorkMustNotReachBehindAnAllocation) {
#ifdef EMULATION_ASAN
  constexpr std::size_t kBytes = 100;  // any number
#else
  constexpr std::size_t kBytes = 128;  // a multiple of the alignment
#endif
  unsigned char* memory = allocate(kBytes);
  allocate(kBytes);
  cudaMemsetAsync(memory, 0, kBytes + 1, a_);
  EXPECT_DEATH(cudaStreamSynchronize(a_), kOfNobody);
}

TEST_F(EmulatedCuda, FreshMemoryIsPoisonedAndAddressesAreUsedOnce) {
  std::set<unsigned char*> seen;
  for (int i = 0; i < 10; ++i) {
    unsigned char* memory = allocate(5000);
    EXPECT_EQ(fetch(memory, 5000), Bytes(5000, 0xff));
    EXPECT_TRUE(seen.insert(memory).second);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    EXPECT_NE(cudaFree(memory), cudaSuccess) << "twice";
  }
}

// Whole pages of zeros are made in another way than the bytes beside them.
TEST_F(EmulatedCuda, ZerosAreWhereTheyWereAskedForAndNowhereElse) {
  constexpr std::size_t kBytes = 3'000'064;
  for (const std::size_t begin : {0, 1, 4095, 70'000}) {
    for (const std::size_t bytes : {1, 100, 4096, 9000, 1'500'000}) {
      unsigned char* memory = allocate(kBytes);
      Bytes expected(kBytes, 0xff);
      for (const auto& [value, first, count] :
           {std::tuple(7, begin / 2, bytes), std::tuple(0, begin, bytes)}) {
        cudaMemsetAsync(memory + first, value, count, a_);
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first), count, value);
      }
      EXPECT_TRUE(fetch(memory, kBytes) == expected) << bytes << " from " << begin;
      cudaFree(memory);
    }
  }
}

TEST_F(EmulatedCudaDeathTest, ZerosMustBeWithinAnAllocationThatIsAlive) {
  for (const bool freed : {false, true}) {
    unsigned char *memory = allocate(8192), *const next = allocate(8192);
    if (freed) cudaFree(memory);
    cudaMemsetAsync(memory, 0, freed ? 8192 : 3 * 8192, a_);
    EXPECT_DEATH(cudaStreamSynchronize(a_), kOfNobody);
    cudaFree(next);
  }
}

TEST_F(EmulatedCuda, CopiesOfPageableMemoryFollowTheDriver) {
  unsigned char* memory = allocate(3);
  Bytes sent{1, 2, 3};
  cudaMemcpyAsync(memory, sent.data(), 3, cudaMemcpyDefault, a_);
  sent = {7, 7, 7};
  EXPECT_EQ(fetch(memory, 3), (Bytes{1, 2, 3})) << "read on return, and there on return";
  cudaFree(memory);
}

TEST_F(EmulatedCuda, StreamsAreAsFarApartAsEventsLetThem) {
  std::set<int> last, last_if_ordered;
  for (int i = 0; i < 40; ++i) {
    last.insert(last_of_two_writers(false));
    last_if_ordered.insert(last_of_two_writers(true));
  }
  EXPECT_EQ(last, (std::set{1, 2}));
  EXPECT_EQ(last_if_ordered, std::set{2});
}

TEST_F(EmulatedCuda, HasOneDevice) {
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
}

TEST_F(EmulatedCuda, NothingIsDoneBeforeTheHostWaits) {
  bool done = false;
  emulation::enqueue(a_, [&] { return done = true; });
  EXPECT_FALSE(done);
  cudaStreamSynchronize(b_);
  cudaStreamSynchronize(a_);
  EXPECT_TRUE(done);
}

TEST_F(EmulatedCuda, AFailureIsToldToWhoWaits) {
  emulation::enqueue(a_, []() -> bool { throw std::runtime_error("emulated kernel: trap"); });
  const cudaError_t error = cudaStreamSynchronize(a_);
  EXPECT_EQ(error, cudaErrorLaunchFailure);
  EXPECT_STREQ(cudaGetErrorString(error), "emulated kernel: trap");
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
}

}  // namespace
}  // namespace nanofsdp::testing
