#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/errors.h"

namespace nanofsdp {
namespace {

// Whichever ranges throw: the caller gets the exception of the first of them, after all other
// ranges are done. Then the pool runs the next loop as before.
TEST(ThreadPool, ThrowsWhatTheFirstRangeThrewAfterAllAreDone) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (unsigned failing = 1; failing < 1u << threads; ++failing) {
      std::atomic<int> done{0};
      const RangeBody body = [&](std::int64_t range, std::int64_t) {
        if (failing >> range & 1) throw std::runtime_error("range " + std::to_string(range));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++done;
      };
      testing::expect_error<std::runtime_error>(
          [&] { pool.run(threads, 1, body); },
          "range " + std::to_string(std::countr_zero(failing)));
      EXPECT_EQ(done, threads - std::popcount(failing));
      std::atomic<std::int64_t> sum{0};
      pool.run(threads, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
      EXPECT_EQ(sum, threads);
    }
  }
}

// A loop in a range of another one, and a loop of another thread, visit every index once, too.
TEST(ThreadPool, RunsALoopWithinALoop) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    std::array<std::atomic<int>, 64> visits{};
    const auto inner = [&](std::int64_t i) {
      pool.run(8, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j) ++visits.at(8 * i + j);
      });
    };
    for (int round = 0; round < 50; ++round) {
      std::thread other([&] { inner(7); });
      pool.run(7, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) inner(i);
      });
      other.join();
    }
    for (const auto& each : visits) EXPECT_EQ(each, 50);
  }
}

}  // namespace
}  // namespace nanofsdp
