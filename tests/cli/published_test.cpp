#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "support/temporary_directory.h"

// Compares steps that others have published (published.txt) with their plans. Four constants of
// each machine were fitted to a few of the rows; all other rows test them.

namespace nanofsdp::cli::published_test {
namespace {

struct Row {
  std::string tokens_per_s, gib, use, source;
  Words options{};
  std::string text{};
};

std::string in_repository(const std::string& file) {
  return testing::read_file(std::string(NANOFSDP_SOURCE_DIR) + "/" + file);
}

std::vector<Row> published() {
  std::istringstream lines(in_repository("tests/cli/published.txt"));
  std::vector<Row> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    Row row;
    words >> row.tokens_per_s >> row.gib >> row.use >> row.source;
    for (std::string word; words >> word;) {
      const std::string of_tests = "--machine=tests/";  // a file of this repository
      if (word.starts_with(of_tests)) word.insert(10, std::string(NANOFSDP_SOURCE_DIR) + "/");
      row.options.push_back(word);
    }
    row.text = line;
    rows.push_back(row);
  }
  return rows;
}

double median(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The errors of a class of rows, in time.
using Errors = std::map<std::string, std::vector<double>>;

// The rows of a table in lessons/plan.md: a class, its number of rows, its median error.
std::string table_of(const Errors& errors) {
  std::string text;
  for (const auto& [name, values] : errors)
    text += fmt::format("| {} | {} | {:.1f} % |\n", name, values.size(), 100 * median(values));
  return text;
}

// If the planner has changed, paste the tables that this test prints into the page.
TEST(Published, StepsArePlannedWithinSixPercent) {
  const std::string page = in_repository("lessons/plan.md");
  Errors by_source, by_length, by_code;
  std::vector<double> time, memory;
  std::string tensor;
  std::size_t rows = 0;
  for (const Row& row : published()) {
    const PlanOptions o = parse_plan_options(row.options);
    const auto json = json_of(o, plan_of(o));
    const bool ran = row.tokens_per_s != "-";
    ++rows;
    // A published step had enough memory, unless the source says that it had not.
    EXPECT_EQ(json["fits"], ran) << row.text;
    if (row.gib != "-")
      memory.push_back(json["peak_bytes"].get<double>() / (1 << 30) / std::stod(row.gib) - 1);
    if (!ran || row.use == "fitted") continue;
    const double error = json["tokens_per_s"].get<double>() / std::stod(row.tokens_per_s) - 1;
    time.push_back(error);
    const std::string machine = std::filesystem::path(o.machine).stem(),
                      tokens = json["planned"]["block_size"];
    by_source[row.source + " | " + machine].push_back(error);
    by_length[fmt::format("{:>6}", tokens)].push_back(error);
    if (row.source == "torchtitan-TP")
      tensor += fmt::format(" {:.0f}", json["tokens_per_s"].get<double>());
    by_code[json["planned"]["compile"] == "True" ? "compiled" : "eager"].push_back(error);
  }
  EXPECT_GE(rows, 280u);
  const std::vector<std::string> said = plan::words_in(tensor);
  ASSERT_EQ(said.size(), 3u);
  const std::string sentence =
      fmt::format("The planner says {}, {} and {}.", said[0], said[1], said[2]);
  EXPECT_NE(page.find(sentence), page.npos) << sentence;
  EXPECT_LE(median(time), 0.06);
  EXPECT_LE(median(memory), 0.07);
  for (const Errors& errors : {by_length, by_code}) {
    for (const auto& [name, values] : errors) EXPECT_LE(median(values), 0.10) << name;
  }
  const std::string sums =
      fmt::format("{} rows that nothing was fitted to: the median error is {:.1f} %", time.size(),
                  100 * median(time));
  EXPECT_NE(page.find(sums), page.npos) << sums;
  const std::string sums_2 =
      fmt::format("memory, {} figures: {:.1f} %", memory.size(), 100 * median(memory));
  EXPECT_NE(page.find(sums_2), page.npos) << sums_2;
  for (const Errors& errors : {by_source, by_length, by_code})
    EXPECT_NE(page.find(table_of(errors)), page.npos) << table_of(errors);
}

// The text of each machine says to how many rows its constants were fitted.
TEST(Published, RowsThatWereFittedToAreCountedInTheMachines) {
  std::map<std::string, int> fitted;
  for (const Row& row : published()) {
    if (row.use == "fitted") ++fitted[parse_plan_options(row.options).machine];
  }
  const int h100 = fitted["h100"] + fitted["h100-96"];
  for (const char* machine : {"h100", "h100-96", "h200"}) {
    const std::string said = plan::find_machine(machine).fitted_to;
    EXPECT_NE(said.find(fmt::format("{} published steps on H100", h100)), said.npos) << said;
  }
  for (const char* machine : {"a100-80", "a100-40"}) {
    const std::string said = plan::find_machine(machine).fitted_to;
    EXPECT_NE(said.find(fmt::format("{} published steps on A100", fitted["a100-80"])), said.npos)
        << said;
  }
  EXPECT_EQ(fitted["a100-40"], 0);
}

}  // namespace
}  // namespace nanofsdp::cli::published_test
