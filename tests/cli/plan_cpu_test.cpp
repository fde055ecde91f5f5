#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "support/temporary_directory.h"

namespace nanofsdp::cli::plan_cpu_test {
namespace {

const std::string kSource = NANOFSDP_SOURCE_DIR;

std::string milliseconds(double ms) { return fmt::format("{:.{}f}", ms, ms < 100 ? 1 : 0); }

// The predictions of the page were made before the measurements, and must not change.
TEST(PlanOnACpu, IsWhatThePageSays) {
  std::istringstream page(testing::read_file(kSource + "/lessons/plan_cpu.md"));
  const std::regex row(R"(\| `(.*)` \| ([0-9.]+) \| .*)");
  int rows = 0;
  std::smatch m;
  for (std::string line; std::getline(page, line);) {
    if (!std::regex_match(line, m, row)) continue;
    ++rows;
    const bool local = line.find("--backend=local") != line.npos;
    std::vector<std::string> args = {
        fmt::format("--machine={}/data/machines/cpu-2{}.txt", kSource, local ? "-local" : "")};
    std::istringstream options(m[1]);
    for (std::string option; options >> option;) args.push_back(option);
    const plan::Plan plan = plan_of(parse_plan_options(args));
    EXPECT_EQ(milliseconds(1e3 * plan.time->seconds), m[2]) << line;
  }
  EXPECT_EQ(rows, 50);
}

}  // namespace
}  // namespace nanofsdp::cli::plan_cpu_test
