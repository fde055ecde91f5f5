#include "cli/bench.h"

#include <gtest/gtest.h>

#include <string>

namespace nanofsdp::cli {
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
  testing::internal::CaptureStdout();
  print_race({.rounds = 3, .rows = "title, "}, "title",
             {candidate("limit", "", {1, 2, 9}), candidate("row", "limit", {3, 4, 5})});
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_NE(out.find("2000.000 ms (1000.000 to 9000.000)      5.00 GB/s\n"), out.npos) << out;
  EXPECT_NE(out.find("2.50 GB/s, 50 % of limit\n"), out.npos) << out;
  testing::internal::CaptureStdout();
  print_race({.rounds = 1, .rows = "title, row"}, "title",
             {candidate("limit", "", {}), candidate("row", "limit", {4})});
  const std::string filtered = testing::internal::GetCapturedStdout();
  EXPECT_EQ(filtered.find("limit"), filtered.npos) << filtered;
  EXPECT_NE(filtered.find("row"), filtered.npos);
}

}  // namespace
}  // namespace nanofsdp::cli
