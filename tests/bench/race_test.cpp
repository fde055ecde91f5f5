#include "bench/bench.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/context.h"
#include "ops/micro_kernel.h"

namespace nanofsdp::bench::race_test {
namespace {

TEST(Bench, TakesTurnsAndSortsTheSamplesOfEach) {
  std::string order;
  const auto candidate = [&](const char* name, std::vector<double> seconds) {
    return Candidate{.name = name, .measure = [&order, name, seconds, next = 0]() mutable {
                       order += name;
                       return Sample{seconds.at(next++), 7};
                     }};
  };
  const auto samples = race({candidate("a", {3, 1, 2}), candidate("b", {4, 5, 6})}, 3);
  EXPECT_EQ(order, "ababab");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].at(0).seconds, 1);
  EXPECT_EQ(samples[0].at(1).seconds, 2);
  EXPECT_EQ(samples[0].at(2).seconds, 3);
  EXPECT_EQ(samples[1].at(1).bytes, 7);
}

TEST(Bench, PrintsTheMedianTheRateAndTheFractionOfTheLimit) {
  const auto candidate = [](const char* name, const char* limit, std::vector<double> seconds) {
    return Candidate{name, 10, "GB/s", limit,
                     [seconds, next = 0]() mutable { return Sample{seconds.at(next++)}; }};
  };
  ::testing::internal::CaptureStdout();
  print_race({.rounds = 3, .rows = "title, "}, "title",
             {candidate("limit", "", {1, 2, 9}), candidate("row", "limit", {3, 4, 5})});
  const std::string out = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(out.find("2000.000 ms (1000.000 to 9000.000)      5.00 GB/s\n"), out.npos) << out;
  EXPECT_NE(out.find("2.50 GB/s, 50 % of limit\n"), out.npos) << out;
  ::testing::internal::CaptureStdout();
  print_race({.rounds = 2, .rows = "title, "}, "title", {candidate("limit", "", {1, 2})});
  const std::string between = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(between.find("1500.000 ms (1000.000 to 2000.000)"), between.npos) << between;
  ::testing::internal::CaptureStdout();
  print_race({.rounds = 1, .rows = "title, row"}, "title",
             {candidate("limit", "", {}), candidate("row", "limit", {4})});
  const std::string filtered = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(filtered.find("limit"), filtered.npos) << filtered;
  EXPECT_NE(filtered.find("row"), filtered.npos);
}

TEST(Saturation, GoesThroughBothMeasurements) {
  const Saturation s = saturation(64, 100, 1024, 160);
  EXPECT_NEAR(s.most / (1 + s.half / 64), 100, 1e-9);
  EXPECT_NEAR(s.most / (1 + s.half / 1024), 160, 1e-9);
  EXPECT_EQ(saturation(64, 100, 1024, 90).half, 0);
  EXPECT_EQ(saturation(64, 100, 1024, 90).most, 90);
}

TEST(Yardstick, AddsElementByElement) {
  std::vector<float> sum{1, 2, 3};
  add(sum, std::vector<float>{10, 20, 30});
  EXPECT_EQ(sum, (std::vector<float>{11, 22, 33}));
}

TEST(Peak, CountsWhatAllThreadsDo) {
  const Context one(0, 1, 1), three(0, 1, 3);
  // 10 registers multiply and add 2^20 times. Registers wider than the processor's would be
  // spilled.
  EXPECT_EQ(multiply_and_add(*one.compute), 2.0 * (1 << 20) * 10 * ops::kLanes);
  EXPECT_EQ(multiply_and_add(*three.compute), 3 * multiply_and_add(*one.compute));
  EXPECT_GT(peak_flops(*one.compute), 1e8);  // any processor reaches this, even under a sanitizer
}

TEST(MachineText, IsReadBack) {
  using plan::Machine;
  const Machine m{.kind = Machine::Kind::cpu,
                  .memory = 1e9,
                  .memory_bandwidth = 2e9,
                  .cores = 3,
                  .products_bfloat16 = 4e9,
                  .products_float32 = 5e9,
                  .attention = 7e9,
                  .attention_half_length = 8,
                  .flops = 9e9,
                  .node_ranks = 1024,
                  .node_bandwidth = 11e9,
                  .node_latency = 3e-6,
                  .network_bandwidth = 12e9,
                  .network_latency = 4e-6,
                  .product_efficiency = 0.96};
  const std::string text = machine_text(m, "a laptop");
  EXPECT_TRUE(text.starts_with(kMeasured)) << "so a later measurement may replace the file\n"
                                           << text;
  EXPECT_NE(text.find("\n# a laptop\n"), text.npos) << text;
  const Machine read = plan::parse_machine(text, "m.txt");
  EXPECT_EQ(read.kind, m.kind);
  for (const auto n : {&Machine::memory,
                       &Machine::memory_bandwidth,
                       &Machine::cores,
                       &Machine::products_bfloat16,
                       &Machine::products_float32,
                       &Machine::product_half_width,
                       &Machine::attention,
                       &Machine::attention_half_length,
                       &Machine::flops,
                       &Machine::kernel_time,
                       &Machine::launch_time,
                       &Machine::node_ranks,
                       &Machine::node_bandwidth,
                       &Machine::node_latency,
                       &Machine::network_bandwidth,
                       &Machine::network_latency,
                       &Machine::network_oversubscription,
                       &Machine::product_efficiency,
                       &Machine::memory_efficiency,
                       &Machine::network_efficiency,
                       &Machine::overlap_slowdown}) {
    EXPECT_EQ(read.*n, m.*n);
  }
}

}  // namespace
}  // namespace nanofsdp::bench::race_test
