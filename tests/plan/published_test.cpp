#include "plan/published.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/temporary_directory.h"

// Compares the measurements of others with the planner's predictions. Four constants of each
// machine were fitted to a few of these rows; the other rows test them.

namespace nanofsdp::plan {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string how(const Practice& p) {
  std::string text = p.compiled ? "compiled" : p.fused_norm ? "fused norm" : "eager";
  if (p.recompute == Recompute::selective) text += ", selective";
  if (p.recompute == Recompute::block)
    text += p.every > 1 ? fmt::format(", 1 block of {}", p.every) : ", block";
  return text;
}

std::string percent(double predicted, double measured) {
  return measured > 0 ? fmt::format("{:+.1f} %", 100 * (predicted / measured - 1)) : "";
}

std::string number(double x, int digits) { return x > 0 ? fmt::format("{:.{}f}", x, digits) : ""; }

// A row of the table in lessons/plan.md.
std::string row(const Published& p, const Predicted& got) {
  const std::string verdict = p.fitted             ? "fitted"
                              : p.tokens_per_s > 0 ? percent(got.tokens_per_s, p.tokens_per_s)
                                                   : "out of memory";
  return fmt::format("| {} | {} | {} {} | {} x {} | {} | {} | {:.0f} | {} | {} | {:.1f} | {} |\n",
                     p.source, p.model, p.ranks, p.machine, p.rows, p.tokens, how(p.how),
                     number(p.tokens_per_s, 0), got.tokens_per_s, verdict, number(p.gib, 1),
                     got.gib, percent(got.gib, p.gib));
}

// If the planner has changed, paste the rows that this test prints into the page.
TEST(Published, IsPredictedWithinTenPercent) {
  const std::string page =
      nanofsdp::testing::read_file(std::string(NANOFSDP_SOURCE_DIR) + "/lessons/plan.md");
  std::vector<double> time, memory;
  for (const Published& p : published()) {
    const Predicted got = predict(p);
    if (p.tokens_per_s > 0 && !p.fitted)
      time.push_back(std::abs(got.tokens_per_s / p.tokens_per_s - 1));
    if (p.gib > 0) memory.push_back(std::abs(got.gib / p.gib - 1));
    EXPECT_EQ(got.fits, p.tokens_per_s > 0) << row(p, got);  // a published step had enough memory
    EXPECT_NE(page.find(row(p, got)), page.npos) << "the page has no row\n" << row(p, got);
  }
  EXPECT_LE(median(time), 0.10);
  EXPECT_LE(median(memory), 0.10);
  const std::string sum =
      fmt::format("{} rows that nothing was fitted to: the median error is {:.1f} %", time.size(),
                  100 * median(time));
  EXPECT_NE(page.find(sum), page.npos) << sum;
  const std::string sum_2 =
      fmt::format("memory, {} figures: {:.1f} %", memory.size(), 100 * median(memory));
  EXPECT_NE(page.find(sum_2), page.npos) << sum_2;
}

}  // namespace
}  // namespace nanofsdp::plan
