#include "plan/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/plan.h"
#include "plan/played.h"
#include "plan/transformer.h"

// Tests each law of the clock with numbers that can be computed by hand.

namespace nanofsdp::plan {
namespace {

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
  log.work(2, {.payload = {.bytes = 200, .ranks = 3}});  // latency of 2 s
  // 100 bytes of the first collective are sent when the second begins. Each sends 50 bytes a second
  // until 6 s. Then 300 bytes of the first are left.
  EXPECT_EQ(log.on(gpu()).busy, (Seconds{0, 9, 6}));
}

TEST(Clock, LinksInsideAndBetweenNodesAreTwo) {
  Log log;
  log.work(1, kSeven);
  log.work(2, {.payload = {.bytes = 20, .ranks = 2, .stride = 4}});
  EXPECT_EQ(log.on(gpu(), {.ranks = 8}).busy, (Seconds{0, 7, 3 + 2}));
}

TEST(Clock, StreamsThatComputeShareAGpuButNotACpu) {
  Log log;
  log.work(1, kTen);
  log.work(2, {.flops = 4});
  EXPECT_EQ(log.on(gpu()).busy, (Seconds{0, 14, 8}));
  EXPECT_EQ(log.on(cpu(), {.ranks = 1}).busy, (Seconds{0, 10, 4}));
}

// A rank has one of two cores, for both of its threads.
TEST(Clock, ACollectiveOnACpuTakesItsCoreFromTheComputation) {
  Machine machine = cpu();
  machine.cores = 2;
  Log log;
  log.work(1, {.payload = {.bytes = 200, .ranks = 2}});  // latency of 1 s, then 4 s
  log.work(0, kTen);
  const Played played = log.on(machine, {.ranks = 2});
  EXPECT_EQ(played.seconds, 5 + 10);
  EXPECT_EQ(played.busy, (Seconds{15, 10, 0}));
  machine.cores = 4;
  EXPECT_EQ(log.on(machine, {.ranks = 2}).seconds, 10);
}

TEST(Clock, AMessageToNobodyTakesNoLink) {
  Log log;
  log.work(1, {.payload = {.bytes = 600, .ranks = 1}});
  EXPECT_EQ(log.on(gpu()).seconds, 0);
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
}

TEST(Clock, ACollectiveSlowsComputation) {
  Machine machine = gpu();
  machine.overlap_slowdown = 2;
  Log log;
  log.work(0, kTen);
  log.work(1, kSeven);
  EXPECT_EQ(log.on(machine).busy, (Seconds{13.5, 7, 0}));  // 3.5 s of work in 7 s
}

// A cast on another stream is no communication, although computation waits for it. Two collectives
// at a time are communication once.
TEST(Clock, CommunicationIsOfCollectivesAlone) {
  Log log;
  const std::size_t cast = log.work(1, kTen);
  log.wait(0, 1, cast);
  log.work(0, kTen);
  const Played casts = log.on(gpu());
  EXPECT_EQ(casts.communication, 0);
  EXPECT_EQ(casts.exposed, (std::vector<double>{10, 0, 0}));
  Log two;
  const std::size_t first = two.work(1, kSeven), second = two.work(2, kSeven);
  two.wait(0, 1, first);
  two.wait(0, 2, second);
  two.work(0, kTen);
  const Played both = two.on(gpu());
  EXPECT_EQ(both.communication, 13);  // 1 s of latency, then 6 s twice on one link
  EXPECT_EQ(both.busy, (std::vector<double>{10, 13, 13}));
  EXPECT_EQ(both.exposed[1] + both.exposed[2], 13);
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
  EXPECT_EQ(when, 19);
}

// A sum across groups takes 3 s and then 10 s, in the network. The next sum is inside a node.
TEST(Clock, SumsAcrossGroupsMayHaveAStreamOfTheirOwn) {
  constexpr Cost kAcross{.payload = {.bytes = 100, .ranks = 2, .stride = 8}};
  Log log;
  log.work(2, kSeven);
  const std::size_t summed = log.work(2, kAcross);
  log.work(2, kSeven);
  EXPECT_EQ(log.on(gpu(), {.ranks = 16}).seconds, 7 + 13 + 7);
  EXPECT_EQ(log.on(gpu(), {.ranks = 16, .across = 1}).seconds, 7 + 13);
  EXPECT_EQ(log.on(gpu(), {.ranks = 16, .across = 0.5}).seconds, 7 + 8);
  // Of 32 ranks it reaches over half. It is a sum of a shard group, and stays on its stream.
  EXPECT_EQ(log.on(gpu(), {.ranks = 32, .across = 0.5}).seconds, 7 + 13 + 7);
  log.wait(0, 2, summed);  // waits for the sum
  log.work(0, kTen);
  EXPECT_EQ(log.on(gpu(), {.ranks = 16, .across = 1}).seconds, 7 + 13 + 10);
}

// The log is that of one of 4,096 ranks. All its streams are played to the end.
TEST(Clock, PlaysAStepOfLlama3_70B) {
  Outline model(transformer(*find_transformer("llama-3-70b"), {}));
  const fsdp::Options options{.precision = {DType::bfloat16, DType::float32},
                              .wrap_policy = is_block};
  const Work work{.rows = {1}, .tokens = 8192};
  const Machine h100 = find_machine("h100");
  const Plan planned = plan(
      model, {.ranks = 4096, .device = Device::simulated_cuda, .options = options, .work = work},
      &h100);
  ASSERT_TRUE(planned.time.has_value());
  EXPECT_EQ(planned.time->busy.size(), 3u);
  for (const double busy : planned.time->busy) EXPECT_GT(busy, 0);
  EXPECT_FALSE(planned.spans.empty());

  SimulatedRank rank(0, 4096, 1, Device::simulated_cuda);
  comm::Mesh mesh = make_simulated_mesh(rank);
  Rehearsal(rank, mesh, model, options, work).step();
  double products = 0, attention = 0, sent = 0;
  for (const Issued& issued : rank.issued) {
    products += issued.cost.products;
    attention += issued.cost.attention;
    sent += issued.cost.payload.bytes;
  }
  const double C = 8192, K = 1024, F = 28'672, V = 128'256, T = 8192;
  const double matrices = 80 * (2 * C * C + 2 * C * K + 3 * C * F) + C * V;
  EXPECT_EQ(products, 6 * T * matrices);
  EXPECT_EQ(attention, 80 * 7 * 2 * C * T * (T + 1) / 2);
  EXPECT_EQ(planned.products, (products + attention) / T);
  EXPECT_EQ(planned.step.all_gathers, 2 * 81 - 1);
  EXPECT_EQ(planned.step.reduce_scatters, 81);
  const double norms = 8.0 * 4095;  // a float64 of every other rank
  EXPECT_EQ(sent, static_cast<double>(planned.step.bytes_sent) + norms);
}

}  // namespace
}  // namespace nanofsdp::plan
