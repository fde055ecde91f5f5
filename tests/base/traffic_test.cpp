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
  const Traffic a{.all_gathers = 1,
                  .reduce_scatters = 20,
                  .all_reduces = 300,
                  .broadcasts = 4000,
                  .bytes_sent = 50'000,
                  .bytes_received = 600'000,
                  .control = 7'000'000};
  const Traffic twice{.all_gathers = 2,
                      .reduce_scatters = 40,
                      .all_reduces = 600,
                      .broadcasts = 8000,
                      .bytes_sent = 100'000,
                      .bytes_received = 1'200'000,
                      .control = 14'000'000};
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
