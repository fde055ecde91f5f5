#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "plan/played.h"

// Tests the laws of the clock on random logs, and a case in which one might expect a law.

namespace nanofsdp::plan {
namespace {

using Kind = Issued::Kind;
using Seconds = std::vector<double>;

// With faster memory the second collective begins earlier, beside the one that is waited for.
TEST(Clock, AFasterMachineMayTakeLonger) {
  Log log;
  const std::size_t gathered = log.work(1, {.payload = {.bytes = 800, .ranks = 2}});
  log.wait(2, 0, log.work(0, {.read = 10}));
  log.work(2, {.payload = {.bytes = 800, .ranks = 2}});
  log.wait(0, 1, gathered);
  log.work(0, {.flops = 20});
  Machine machine = gpu();
  EXPECT_EQ(log.on(machine).seconds, 10 + 20);
  machine.memory_bandwidth = 2;
  EXPECT_EQ(log.on(machine).seconds, 12 + 20);
}

// Random work, waits and blocks on three streams.
struct RandomLog : Log {
  explicit RandomLog(unsigned seed) : draw(seed) {
    for (int i = 0; i < 60; ++i) {
      const int stream = below(3), other = below(3);
      const std::size_t past = all.size() > 0 ? 1 + below(static_cast<int>(all.size())) : 0;
      switch (past == 0 ? 0 : below(6)) {
        case 0:
          work(stream, {.read = 1.0 * below(9), .launches = below(3)});
          break;
        case 1:
        case 2:
          work(stream, {.flops = 1.0 * below(9)});
          break;
        case 3:
          work(stream,
               {.payload = {.bytes = 100.0 * below(9), .ranks = 2, .stride = 1 << below(4)}});
          break;
        case 4:
          wait(stream, other, past);
          break;
        default:
          block(other, past);
      }
    }
  }
  int below(int n) { return static_cast<int>(draw() % static_cast<unsigned>(n)); }
  std::mt19937 draw;
};

Machine slow() {
  Machine machine = gpu();
  machine.kernel_time = 0.25;
  machine.launch_time = 0.125;
  return machine;
}

constexpr unsigned kLogs = 200;

TEST(RandomLogs, TakeHalfTheTimeOnAMachineTwiceAsFast) {
  for (unsigned seed = 0; seed < kLogs; ++seed) {
    RandomLog log(seed);
    Machine machine = slow();
    machine.overlap_slowdown = 1.5;
    const Played once = log.on(machine, kSetup);
    EXPECT_EQ(log.on(machine, kSetup).busy, once.busy) << seed;
    for (double* rate : {&machine.memory_bandwidth, &machine.products_float32, &machine.attention,
                         &machine.flops, &machine.node_bandwidth, &machine.network_bandwidth}) {
      *rate *= 2;
    }
    for (double* time : {&machine.kernel_time, &machine.launch_time, &machine.node_latency,
                         &machine.network_latency}) {
      *time /= 2;
    }
    EXPECT_EQ(2 * log.on(machine, kSetup).seconds, once.seconds) << seed;
  }
}

TEST(RandomLogs, TakeNoLessThanAStreamAndNoMoreThanAll) {
  for (unsigned seed = 0; seed < kLogs; ++seed) {
    RandomLog log(seed);
    const Machine machine = slow();
    Seconds streams(3);
    double launching = 0;
    for (const Issued& i : log.all) {
      if (i.kind != Kind::work) continue;
      double& of_stream = streams[static_cast<std::size_t>(i.stream)];
      of_stream += work_seconds(machine, kSetup, i.cost);
      launching += i.cost.launches * machine.launch_time;
      if (i.cost.payload.ranks < 2) continue;
      const Transfer t = transfer(machine, kSetup, i.cost.payload);
      of_stream += t.latency + t.seconds;
    }
    const Played played = log.on(machine, kSetup);
    const double all = std::accumulate(streams.begin(), streams.end(), launching);
    EXPECT_GE(played.seconds, std::max(launching, std::ranges::max(streams)) - 1e-9) << seed;
    EXPECT_LE(played.seconds, all + 1e-9) << seed;
    const double stood = std::accumulate(played.exposed.begin(), played.exposed.end(), 0.0);
    EXPECT_NEAR(played.busy[0] + stood, played.seconds, 1e-9) << seed;
  }
}

}  // namespace
}  // namespace nanofsdp::plan
