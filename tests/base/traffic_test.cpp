#include "base/traffic.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/patience.h"

namespace nanofsdp::traffic_test {
namespace {

using namespace std::chrono_literals;

// Each field has a number of its own, so no field can stand for another.
TEST(Traffic, IsAddedAndSubtractedFieldByField) {
  const auto of = [](std::int64_t n) {
    return Traffic{.all_gathers = n,
                   .reduce_scatters = 10 * n,
                   .all_reduces = 100 * n,
                   .broadcasts = 1000 * n,
                   .bytes_sent = 10'000 * n,
                   .bytes_received = 100'000 * n,
                   .control = 1'000'000 * n};
  };
  const Traffic a = of(3), twice = of(6);
  EXPECT_EQ(a + a, twice);
  EXPECT_EQ(twice - a, a);
  EXPECT_EQ(a - a, Traffic());
  EXPECT_EQ(a + Traffic(), a);
}

// Time counts as idle only after the last of the works has ended.
TEST(Work, IsIdleFromTheEndOfTheLastOne) {
  Work work;
  EXPECT_EQ(work.add(1), 1);
  EXPECT_EQ(work.add(1), 2);
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(work.add(-1), 1);
  EXPECT_EQ(work.idle(), 0ms);
  std::this_thread::sleep_for(30ms);
  const auto end = Patience::Clock::now();
  EXPECT_EQ(work.add(-1), 0);
  const auto idle = work.idle();
  EXPECT_LE(idle, Patience::Clock::now() - end);
  std::this_thread::sleep_for(20ms);
  EXPECT_GE(work.idle(), 20ms);
}

}  // namespace
}  // namespace nanofsdp::traffic_test
