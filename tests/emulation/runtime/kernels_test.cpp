#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "ops/flash/warp_matrix.cuh"

// Tests that the emulated GPU is strict inside a kernel. Without that, the tests of flash attention
// would show less.

namespace nanofsdp::testing {
namespace {

using namespace ops::cuda::flash;

constexpr int kLaunches = 40;
constexpr unsigned kTwoWarps = 64;

// The different results of many launches of one block.
std::set<int> outcomes(unsigned threads, const std::function<void(int& left)>& thread) {
  std::set<int> seen;
  for (int i = 0; i < kLaunches; ++i) {
    int left = 0;
    emulation::run(1, threads, 4096, [&] { thread(left); });
    seen.insert(left);
  }
  return seen;
}

std::string trouble(const std::function<void()>& thread) {
  try {
    emulation::run(1, 32, 4096, thread);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(EmulatedKernels, OneWarpOrTheOtherRunsAhead) {
  const auto last = [](bool ordered) {
    return outcomes(kTwoWarps, [ordered](int& left) {
      const int warp = static_cast<int>(threadIdx.x / 32);
      if (warp == 0) left = 1;
      if (ordered) __syncthreads();
      if (warp == 1) left = 2;
    });
  };
  EXPECT_EQ(last(false), (std::set{1, 2}));
  EXPECT_EQ(last(true), std::set{2});
}

TEST(EmulatedKernels, ABarrierStopsTheWarpThatIsAhead) {
  EXPECT_EQ(outcomes(kTwoWarps,
                     [](int& left) {
                       left = 1;
                       __syncthreads();
                       if (threadIdx.x == 0) left += 1;
                       __syncthreads();
                       if (threadIdx.x == 63) left += 1;
                     }),
            std::set{3});
}

// The threads that waited for the one that failed are not those of the next kernel.
TEST(EmulatedKernels, AFailureLeavesTheNextKernelWhole) {
  for (const unsigned bad : {0u, 5u, 31u}) {
    EXPECT_EQ(trouble([bad] {
                if (threadIdx.x == bad) emulation::trap();
                __syncthreads();
              }),
              "emulated kernel: trap");
    std::multiset<unsigned> began, ended;
    EXPECT_EQ(trouble([&] {
                began.insert(threadIdx.x);
                __syncthreads();
                ended.insert(threadIdx.x);
              }),
              "none");
    EXPECT_EQ(began.size(), 32u);
    EXPECT_EQ(ended, began);
  }
}

TEST(EmulatedKernels, CopiesComeAtOnceOrWhenTheyAreWaitedFor) {
  alignas(16) const float source[4] = {7, 7, 7, 7};
  const auto first = [&](bool waits) {
    return outcomes(32, [&, waits](int& left) {
      if (threadIdx.x > 0) return;
      copy_later<16>(shared_begin(), source, true);
      if (waits) wait_for_copies();
      const float x = load16(shared_begin()).x;
      left = std::isnan(x) ? -1 : static_cast<int>(x);
    });
  };
  EXPECT_EQ(first(false), (std::set{-1, 7}));
  EXPECT_EQ(first(true), std::set{7});
}

TEST(EmulatedKernels, WhereNothingIsCopiedZerosCome) {
  EXPECT_EQ(outcomes(32,
                     [](int& left) {
                       copy_later<16>(shared_begin() + 16 * lane(), nullptr, false);
                       wait_for_copies();
                       if (load16(shared_begin() + 16 * lane()).w != 0) left = 1;
                     }),
            std::set{0});
}

TEST(EmulatedKernels, AddressesInSharedMemoryAreAlignedAndTheBlocks) {
  const std::string not_aligned = "emulated kernel: an address in shared memory is not aligned";
  const std::string outside = "emulated kernel: an address lies outside of shared memory";
  alignas(16) const float source[8] = {};
  EXPECT_EQ(trouble([] { load16(shared_begin() + 8); }), not_aligned);
  EXPECT_EQ(trouble([] { load16(shared_begin() + 4096); }), outside);
  EXPECT_EQ(trouble([] { load16(shared_begin() + 4080); }), "none");
  EXPECT_EQ(trouble([] { load16(shared_begin() - 16); }), outside);
  EXPECT_EQ(trouble([&] { copy_later<16>(shared_begin() + 4096, source, true); }), outside);
  EXPECT_EQ(trouble([&] { copy_later<16>(shared_begin(), source + 1, true); }),
            "emulated kernel: cp.async from an address that is not aligned");
}

TEST(EmulatedKernels, BanksAreNotShared) {
  unsigned words[4];
  const auto rows = [&](unsigned stride) {
    return trouble([&] { load_matrices<false>(words, shared_begin() + stride * (lane() % 8)); });
  };
  EXPECT_EQ(rows(16), "none");
  EXPECT_EQ(rows(144), "none");
  EXPECT_EQ(rows(128), "emulated kernel: rows of a matrix share banks");
  EXPECT_EQ(trouble([] { store4(shared_begin() + 4 * lane(), 1); }), "none");
  EXPECT_EQ(trouble([] { store4(shared_begin() + 8 * lane(), 1); }),
            "emulated kernel: words of a warp share banks");
}

// Element (r, c) of a matrix is 10 r + c.
TEST(EmulatedKernels, LanesGetTheWordsThatPtxSays) {
  emulation::run(1, 32, 4096, [] {
    const auto number = [](unsigned r, unsigned c) { return static_cast<float>(10 * r + c); };
    for (unsigned c = 0; c < 8; c += 2) {
      const unsigned r = lane() % 8, matrix = lane() / 8;
      if (matrix == 0) {
        unsigned char* to = emulation::shared(shared_begin() + 16 * r + 2 * c, 4, 4);
        *reinterpret_cast<unsigned*>(to) = pack(number(r, c), number(r, c + 1));
      }
    }
    __syncwarp();
    unsigned straight[4], turned[4];
    load_matrices<false>(straight, shared_begin() + 16 * (lane() % 8));
    load_matrices<true>(turned, shared_begin() + 16 * (lane() % 8));
    const unsigned g = lane() / 4, t = lane() % 4;
    EXPECT_EQ(low(straight[3]), number(g, 2 * t));
    EXPECT_EQ(high(straight[3]), number(g, 2 * t + 1));
    EXPECT_EQ(low(turned[0]), number(2 * t, g));
    EXPECT_EQ(high(turned[0]), number(2 * t + 1, g));
  });
}

// a[r][k] = r and b[k][c] = c, so every sum of 16 products is 16 r c.
TEST(EmulatedKernels, AWarpMultiplies) {
  emulation::run(1, 32, 4096, [] {
    const auto g = static_cast<float>(lane() / 4), column = static_cast<float>(column_of_sums());
    const unsigned top = pack(g, g), bottom = pack(g + 8, g + 8);
    const unsigned a[4] = {top, bottom, top, bottom};
    float sums[4] = {1, 1, 1, 1};
    multiply(sums, a, top, top);  // a lane has column g of the right factor
    EXPECT_EQ(sums[0], 1 + 16 * g * column);
    EXPECT_EQ(sums[1], 1 + 16 * g * (column + 1));
    EXPECT_EQ(sums[2], 1 + 16 * (g + 8) * column);
    EXPECT_EQ(sums[3], 1 + 16 * (g + 8) * (column + 1));
  });
}

void nothing() {}

TEST(EmulatedKernels, MoreThan48KilobytesOfSharedMemoryAreAskedForFirst) {
  cudaLaunchConfig_t config;
  config.gridDim = config.blockDim = dim3(1);
  config.dynamicSmemBytes = 48 * 1024 + 16;
  EXPECT_EQ(cudaLaunchKernelEx(&config, nothing), cudaErrorInvalidValue);
  const auto ask = [](int bytes) {
    return cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(ask(228 * 1024), cudaErrorInvalidValue);
  EXPECT_EQ(ask(227 * 1024), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernelEx(&config, nothing), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace nanofsdp::testing
