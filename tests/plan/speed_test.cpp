#include <gtest/gtest.h>

#include "plan/played.h"

// Tests, by numbers computed by hand, how long a piece of work takes alone.

namespace nanofsdp::plan {
namespace {

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
  expect_transfer(of(6, 1), 4 + 3, 40, true);  // 4 and 2, or 2 and 4: two cards of a node
  m.network_oversubscription = 2;
  expect_transfer(of(8, 1), 6 + 3, 40, true);
  m.network_efficiency = 0.5;
  expect_transfer(of(8, 1), 6 + 3, 80, true);
  expect_transfer(of(4, 1), 3, 16, false);
  m.network_bandwidth = 1000;  // faster than the links inside a node
  expect_transfer(of(8, 1), 6 + 3, 16, true);
  m.node_bandwidth = 1;  // a group with one rank on each node does not use it
  expect_transfer(of(4, 4), 3 * 3, 3.2, true);
}

// Groups of 3 on nodes of 4: ranks 3 to 5 lie on two. The machine's only group lies as well as it
// can.
TEST(Transfer, OfGroupsThatStraddleNodesIsThatOfTheGroupThatIsSplit) {
  const auto of = [](int all, int ranks) {
    return transfer(gpu(), {.ranks = all}, {.bytes = 800, .ranks = ranks});
  };
  expect_transfer(of(12, 3), 1 + 3, 80, true);  // 1 and 2
  expect_transfer(of(12, 6), 4 + 3, 40, true);
  expect_transfer(of(6, 6), 4 + 3, 20, true);  // 4 and 2: a node that has begun counts
  expect_transfer(of(12, 4), 3, 8, false);
  expect_transfer(of(16, 8), 6 + 3, 20, true);
  expect_transfer(of(3, 3), 2, 8, false);
  expect_transfer(of(4, 2), 1, 8, false);
}

TEST(Transfer, OfCpusSharesMemoryAndNetworkOfTheNodeAndIsAllWork) {
  const Machine m = cpu();
  const Payload four{.bytes = 800, .ranks = 4};
  expect_transfer(transfer(m, {.ranks = 4}, four), 0, 3 + 800.0 / 25, false);
  expect_transfer(transfer(m, {.ranks = 8}, {.bytes = 800, .ranks = 8}), 0, 6 + 3 + 800 / 2.5,
                  true);
  expect_transfer(transfer(m, {.ranks = 2}, {.bytes = 800, .ranks = 2}), 0, 1 + 800.0 / 50, false);
}

TEST(WorkSeconds, AreTheRoofline) {
  Machine m = gpu();
  const auto seconds = [&](const Cost& cost) { return work_seconds(m, {}, cost); };
  EXPECT_EQ(seconds({.flops = 5, .read = 2, .written = 1}), 5);
  EXPECT_EQ(seconds({.flops = 2, .read = 2, .written = 1}), 3);
  EXPECT_EQ(seconds({.products = 8, .narrowest = 4, .attention = 3, .flops = 1}), 12);
  EXPECT_EQ(seconds({.products = 8, .narrowest = 4, .bfloat16 = true}), 4);
  EXPECT_EQ(seconds({.bfloat16 = true, .attention = 3}), 3);
  m.products_float32 = 0.5;
  EXPECT_EQ(seconds({.attention = 3}), 6) << "no kernel is faster than the processor";
  EXPECT_EQ(seconds({.bfloat16 = true, .attention = 3}), 3);
  m = gpu();
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

TEST(WorkSeconds, OfShortRowsOfAttentionAreLonger) {
  Machine m = gpu();
  m.attention_half_length = 12;
  EXPECT_EQ(work_seconds(m, {}, {.narrowest = 4, .attention = 3}), 12);
  EXPECT_EQ(work_seconds(m, {}, {.products = 8, .narrowest = 4}), 8);
}

TEST(WorkSeconds, OfProductsOnACpuComeOnTopOfTheirMemory) {
  const auto on = [](const Machine& m, const Cost& cost) {
    return work_seconds(m, {.ranks = 1, .threads = 1}, cost);
  };
  const Cost product{.products = 8, .narrowest = 4, .read = 3, .written = 2, .overwritten = 2};
  EXPECT_EQ(on(cpu(), product), 8 + 5);
  EXPECT_EQ(on(gpu(), product), 8);
  // In place, so a cache has fetched the bytes that are overwritten.
  const Cost sweep{.flops = 4, .read = 3, .written = 3};
  EXPECT_EQ(on(cpu(), sweep), 4);
  EXPECT_EQ(on(gpu(), sweep), 6);
  EXPECT_EQ(on(cpu(), {.flops = 4, .read = 3, .written = 3, .overwritten = 3}), 6);
  EXPECT_EQ(on(cpu(), {.attention = 4, .read = 3}), 4);
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

}  // namespace
}  // namespace nanofsdp::plan
