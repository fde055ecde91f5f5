#include "plan/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "plan/plan.h"
#include "plan/transformer.h"

// The clock's laws, each on an example that can be worked out by hand.

namespace nanofsdp::plan {
namespace {

using Kind = Issued::Kind;

// One operation and one byte a second between memory and GPU; 100 bytes a second between the four
// ranks of a node after 1 s a step, 10 between nodes after 3 s.
Machine gpu() {
  return {.kind = Machine::Kind::gpu,
          .memory_bandwidth = 1,
          .products_bfloat16 = 2,
          .products_float32 = 1,
          .attention = 1,
          .flops = 1,
          .node_ranks = 4,
          .node_bandwidth = 100,
          .node_latency = 1,
          .network_bandwidth = 10,
          .network_latency = 3};
}
Machine cpu() {
  Machine machine = gpu();
  machine.kind = Machine::Kind::cpu;
  machine.cores = 4;
  return machine;
}

constexpr Setup kSetup{.ranks = 16};  // on four nodes
constexpr Cost kTen{.flops = 10};
constexpr Cost kSeven{.message = {.bytes = 600, .ranks = 2}};  // in a node: 1 s, then 6 s

// A log of three streams, as a Context has them.
struct Log {
  Log() {
    for (int stream = 0; stream < 3; ++stream) all.new_stream();
  }
  std::size_t work(int stream, const Cost& cost) {
    all.add({.stream = stream, .cost = cost});
    return all.size();
  }
  void wait(int stream, int awaited, std::size_t point) {
    all.add({.kind = Kind::wait, .stream = stream, .awaited = awaited, .point = point});
  }
  void block(int awaited, std::size_t point) {
    all.add({.kind = Kind::block, .awaited = awaited, .point = point});
  }
  void note(int stream, double& when) {
    all.add({.kind = Kind::note, .stream = stream, .when = &when});
  }
  Played on(const Machine& machine, const Setup& setup = {.ranks = 4}, std::size_t warm_up = 0) {
    return play(all, machine, setup, warm_up);
  }
  IssueLog all;
};

using Seconds = std::vector<double>;

TEST(Clock, StreamsOverlap) {
  Log log;
  log.work(0, kTen);
  log.work(1, kSeven);
  const Played played = log.on(gpu());
  EXPECT_EQ(played.seconds, 10);
  EXPECT_EQ(played.busy, (Seconds{10, 7, 0}));
  EXPECT_EQ(played.exposed, (Seconds{0, 0, 0}));
}

TEST(Clock, AStreamThatWaitsComesAfterAndTheTimeIsBookedToTheAwaited) {
  for (const int awaited : {1, 2}) {
    Log log;
    log.wait(0, awaited, log.work(awaited, kSeven));
    log.work(0, kTen);
    const Played played = log.on(gpu());
    EXPECT_EQ(played.seconds, 17);
    EXPECT_EQ(played.exposed[0], 0);
    EXPECT_EQ(played.exposed[static_cast<std::size_t>(awaited)], 7);
  }
}

TEST(Clock, AWaitIsForWhatWasIssuedUntilThen) {
  Log log;
  const std::size_t first = log.work(1, kSeven);
  log.work(1, kSeven);
  log.wait(0, 1, first);
  log.work(0, kTen);
  EXPECT_EQ(log.on(gpu()).seconds, 17);
}

TEST(Clock, TheHostThatBlocksIssuesLater) {
  Log log;
  log.block(1, log.work(1, kSeven));
  log.work(0, kTen);
  const Played played = log.on(gpu());
  EXPECT_EQ(played.seconds, 17);
  EXPECT_EQ(played.exposed, (Seconds{0, 7, 0}));
}

TEST(Clock, OnACpuTheHostIsTheComputeStream) {
  Log log;
  log.work(0, kTen);
  log.work(1, kSeven);
  EXPECT_EQ(log.on(gpu(), {.ranks = 1}).seconds, 10);
  EXPECT_EQ(log.on(cpu(), {.ranks = 1}).seconds, 17);
}

TEST(Clock, CollectivesShareALinkButNoLatency) {
  Log log;
  log.work(1, kSeven);
  log.work(2, {.message = {.bytes = 200, .ranks = 3}});  // 2 s of latency
  // 100 bytes of the first are moved when the second begins; 50 a second of each until 6 s, then
  // 300 of the first are left.
  EXPECT_EQ(log.on(gpu()).busy, (Seconds{0, 9, 6}));
}

TEST(Clock, LinksInsideAndBetweenNodesAreTwo) {
  Log log;
  log.work(1, kSeven);
  log.work(2, {.message = {.bytes = 20, .ranks = 2, .stride = 4}});
  EXPECT_EQ(log.on(gpu(), {.ranks = 8}).busy, (Seconds{0, 7, 3 + 2}));
}

TEST(Clock, StreamsThatComputeShareAGpuButNotACpu) {
  Log log;
  log.work(1, kTen);
  log.work(2, {.flops = 4});
  EXPECT_EQ(log.on(gpu()).busy, (Seconds{0, 14, 8}));
  EXPECT_EQ(log.on(cpu(), {.ranks = 1}).busy, (Seconds{0, 10, 4}));
}

TEST(Clock, AMessageToNobodyTakesNoLink) {
  Log log;
  log.work(1, {.message = {.bytes = 600, .ranks = 1}});
  EXPECT_EQ(log.on(gpu()).seconds, 0);
}

void expect_transfer(const Transfer& t, double latency, double seconds, bool leaves_node) {
  EXPECT_EQ(t.latency, latency);
  EXPECT_EQ(t.seconds, seconds);
  EXPECT_EQ(t.leaves_node, leaves_node);
}

TEST(Transfer, OfGpusIsARing) {
  Machine m = gpu();
  const auto of = [&](int ranks, int stride) {
    return transfer(m, kSetup, {.bytes = 800, .ranks = ranks, .stride = stride});
  };
  expect_transfer(of(4, 1), 3, 8, false);
  expect_transfer(of(8, 1), 6 + 3, 20, true);  // 4 on each of 2 nodes: 4 cards
  expect_transfer(of(4, 2), 2 + 3, 40, true);  // 2 on each
  expect_transfer(of(2, 2), 1, 8, false);
  expect_transfer(of(4, 4), 3 * 3, 80, true);  // 1 on each
  expect_transfer(of(2, 8), 3, 80, true);
  m.network_oversubscription = 2;
  expect_transfer(of(8, 1), 6 + 3, 40, true);
  m.network_efficiency = 0.5;
  expect_transfer(of(8, 1), 6 + 3, 80, true);
  expect_transfer(of(4, 1), 3, 16, false);
  m.network_bandwidth = 1000;  // faster than the node
  expect_transfer(of(8, 1), 6 + 3, 16, true);
}

TEST(Transfer, OfCpusSharesMemoryAndNetworkOfTheNode) {
  const Machine m = cpu();
  const Message four{.bytes = 800, .ranks = 4};
  expect_transfer(transfer(m, {.ranks = 4}, four), 1, 800.0 / 25, false);
  expect_transfer(transfer(m, {.ranks = 8}, {.bytes = 800, .ranks = 8}), 3, 800 / 2.5, true);
  expect_transfer(transfer(m, {.ranks = 2}, {.bytes = 800, .ranks = 2}), 1, 800.0 / 50, false);
}

TEST(Clock, SmallKernelsTakeTheHostsTime) {
  Machine machine = gpu();
  machine.launch_time = 0.5;
  Log log;
  for (int i = 0; i < 100; ++i) log.work(0, {.flops = 0.25, .launches = 2});
  const Played played = log.on(machine);
  EXPECT_EQ(played.seconds, 100 * 2 * 0.5 + 0.25);
  EXPECT_EQ(played.busy[0], 25);
  EXPECT_EQ(played.exposed, (Seconds{75.25, 0, 0}));
  EXPECT_EQ(played.total.launches, 200);
}

TEST(Clock, ACollectiveSlowsComputation) {
  Machine machine = gpu();
  machine.overlap_slowdown = 2;
  Log log;
  log.work(0, kTen);
  log.work(1, kSeven);
  EXPECT_EQ(log.on(machine).busy, (Seconds{13.5, 7, 0}));  // 3.5 s of it in 7 s
}

TEST(Clock, ANoteIsTheTimeOfTheStreamNotOfTheHost) {
  Log log;
  double before = -1, after = -1;
  log.note(0, before);
  log.work(0, kTen);
  log.note(0, after);
  log.on(gpu());
  EXPECT_EQ(before, 0);
  EXPECT_EQ(after, 10);
}

TEST(Clock, AWarmUpDoesNotCountButItsTimePasses) {
  Log log;
  const std::size_t first = log.work(0, kTen);
  double when = -1;
  log.wait(0, 1, log.work(1, kSeven));
  log.work(0, {.flops = 2});
  log.note(0, when);
  const Played played = log.on(gpu(), {.ranks = 4}, first);
  EXPECT_EQ(played.seconds, 9);
  EXPECT_EQ(played.busy, (Seconds{2, 7, 0}));
  EXPECT_EQ(played.exposed, (Seconds{0, 7, 0}));
  EXPECT_EQ(played.total.flops, 2);
  EXPECT_EQ(when, 19);
}

TEST(WorkSeconds, AreTheRoofline) {
  Machine m = gpu();
  const auto seconds = [&](const Cost& cost) { return work_seconds(m, {}, cost); };
  EXPECT_EQ(seconds({.flops = 5, .read = 2, .written = 1}), 5);
  EXPECT_EQ(seconds({.flops = 2, .read = 2, .written = 1}), 3);
  EXPECT_EQ(seconds({.products = 8, .narrowest = 4, .attention = 3, .flops = 1}), 12);
  EXPECT_EQ(seconds({.products = 8, .narrowest = 4, .bfloat16 = true}), 4);
  m.product_half_width = 12;
  EXPECT_EQ(seconds({.products = 8, .narrowest = 12}), 16);
  EXPECT_EQ(seconds({.products = 8, .narrowest = 4}), 32);
  m.product_efficiency = 0.5;
  EXPECT_EQ(seconds({.products = 8, .narrowest = 4, .flops = 1}), 65);
  m.memory_efficiency = 0.25;
  EXPECT_EQ(seconds({.flops = 2, .read = 2, .written = 1}), 12);
  m.kernel_time = 0.5;
  EXPECT_EQ(seconds({.flops = 5, .launches = 4}), 7);
}

TEST(WorkSeconds, OfRanksOnACpuShareCoresAndMemory) {
  const Machine m = cpu();  // 4 cores, 4 ranks a node at most
  const Cost flops{.flops = 24}, bytes{.read = 24};
  EXPECT_EQ(work_seconds(m, {.ranks = 1, .threads = 1}, flops), 24);
  EXPECT_EQ(work_seconds(m, {.ranks = 1, .threads = 3}, flops), 8);
  EXPECT_EQ(work_seconds(m, {.ranks = 2, .threads = 3}, flops), 12);
  EXPECT_EQ(work_seconds(m, {.ranks = 64, .threads = 3}, flops), 24);
  EXPECT_EQ(work_seconds(m, {.ranks = 1, .threads = 3}, bytes), 24);
  EXPECT_EQ(work_seconds(m, {.ranks = 3, .threads = 1}, bytes), 72);
  EXPECT_EQ(work_seconds(m, {.ranks = 64, .threads = 1}, bytes), 96);
}

// Memory twice as fast lets the second collective begin beside the one that is waited for.
TEST(Clock, AFasterMachineMayTakeLonger) {
  Log log;
  const std::size_t gathered = log.work(1, {.message = {.bytes = 800, .ranks = 2}});
  log.wait(2, 0, log.work(0, {.read = 10}));
  log.work(2, {.message = {.bytes = 800, .ranks = 2}});
  log.wait(0, 1, gathered);
  log.work(0, {.flops = 20});
  Machine machine = gpu();
  EXPECT_EQ(log.on(machine).seconds, 10 + 20);
  machine.memory_bandwidth = 2;
  EXPECT_EQ(log.on(machine).seconds, 12 + 20);
}

// Work, waits and blocks on three streams, by chance.
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
               {.message = {.bytes = 100.0 * below(9), .ranks = 2, .stride = 1 << below(4)}});
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
    for (const Issued& i : log.all.all()) {
      if (i.kind != Kind::work) continue;
      double& of_stream = streams[static_cast<std::size_t>(i.stream)];
      of_stream += work_seconds(machine, kSetup, i.cost);
      launching += i.cost.launches * machine.launch_time;
      if (i.cost.message.ranks < 2) continue;
      const Transfer t = transfer(machine, kSetup, i.cost.message);
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

// All that one of 4,096 ranks is asked for is played, and nothing else.
TEST(Clock, PlaysAStepOfLlama3_70B) {
  const auto known = known_transformers();
  const auto shape = std::ranges::find(known, "llama-3-70b", &TransformerShape::name);
  Transformer model(*shape, {});
  const Machine h100 = find_machine("h100");
  const Plan planned =
      plan(model,
           {.ranks = 4096,
            .device = Device::simulated_cuda,
            .options = {.precision = {DType::bfloat16, DType::float32}, .wrap_policy = is_block},
            .work = {.rows = {1}, .tokens = 8192}},
           &h100);
  ASSERT_TRUE(planned.time.has_value());
  const double C = 8192, K = 1024, F = 28'672, V = 128'256, T = 8192;
  const double matrices = 80 * (2 * C * C + 2 * C * K + 3 * C * F) + C * V;
  EXPECT_EQ(planned.time->total.products, 6 * T * matrices);
  EXPECT_EQ(planned.time->total.attention, 80 * 7 * 2 * C * T * (T + 1) / 2);
  EXPECT_EQ(planned.products, planned.time->total.products + planned.time->total.attention);
  EXPECT_EQ(planned.step.all_gathers, 2 * 81 - 1);
  EXPECT_EQ(planned.step.reduce_scatters, 81);
  const double norms = 8.0 * 4095;  // a float64 of every other rank
  EXPECT_EQ(planned.time->total.message.bytes,
            static_cast<double>(planned.step.bytes_sent) + norms);
  EXPECT_EQ(planned.time->busy.size(), 3u);
  for (const double busy : planned.time->busy) EXPECT_GT(busy, 0);
  EXPECT_FALSE(planned.spans.empty());
}

}  // namespace
}  // namespace nanofsdp::plan
