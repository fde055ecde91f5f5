#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/chart.h"
#include "cli/option_kinds.h"
#include "cli/outputs.h"
#include "cli/plan_report.h"

namespace nanofsdp::cli {
namespace {

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> all;
  std::istringstream text(words);
  for (std::string word; std::getline(text, word, ',');) all.push_back(word);
  return all;
}

// The values of an option in the sweep. For numbers they are 1, 2, 4 ... and the option's own.
std::vector<std::int64_t> values_of(const std::string& option, const PlanOptions& o) {
  const TrainOptions& t = o.training;
  if (option == "ranks" || option == "batch_size") {
    std::vector<std::int64_t> all;
    const std::int64_t last = option == "ranks" ? t.ranks : t.batch_size;
    for (std::int64_t n = 1; n < last; n *= 2) all.push_back(n);
    all.push_back(last);
    if (option == "ranks" && t.shard_size > 0)
      std::erase_if(all, [&](std::int64_t n) { return n % t.shard_size != 0; });
    return all;
  }
  // The last strategy is hybrid_shard, which needs a group size.
  if (option == "strategy" && t.shard_size > 0) return {0, 1, 2, 3, 4, 5};
  if (option == "strategy") return {0, 1, 2, 3, 4};
  require(option == "recompute", "sweep", "ranks, batch_size, strategy or recompute, with commas",
          "'" + option + "'");
  return {0, 1, 2};
}

// A row of the table.
struct Planned {
  std::vector<std::string> choices;
  plan::Plan plan;
  Verdict verdict;
};

// Plans all combinations of the options' values. The last option changes fastest.
std::vector<Planned> plan_all(const PlanOptions& o, const std::vector<std::string>& options) {
  std::vector<std::vector<std::int64_t>> axes;
  std::size_t all = 1;
  for (const std::string& option : options) all *= axes.emplace_back(values_of(option, o)).size();
  std::vector<Planned> rows(all);
  for (std::size_t i = 0; i < all; ++i) {
    PlanOptions chosen = o;
    std::size_t every = all;  // number of consecutive rows with the same value of an axis
    for (std::size_t a = 0; a < axes.size(); ++a) {
      every /= axes[a].size();
      const std::int64_t value = axes[a][i / every % axes[a].size()];
      change(chosen, options[a], value);
      rows[i].choices.push_back(word_of(options[a], value));
    }
    rows[i].plan = plan_of(chosen);
    if (rows[i].plan.time) rows[i].verdict = judge(chosen, rows[i].plan);
  }
  return rows;
}

constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73",
                                    "#d55e00", "#56b4e9", "#cc79a7"};

// Draws tokens per second of a rank over the first option, or without a machine the bytes at the
// peak. Each combination of the other options has a line. A run that does not fit is a ring.
std::string drawing(const PlanOptions& o, const std::vector<Planned>& rows,
                    const std::vector<std::string>& options) {
  const bool timed = !o.machine.empty();
  const std::size_t places = values_of(options[0], o).size();
  Chart chart{
      .title = timed ? o.model + " on " + o.machine + ": tokens/s of a rank (a ring: does not fit)"
                     : o.model + ": GB of a rank",
      .across = options[0],
      .last = static_cast<double>(std::max<std::size_t>(places, 2) - 1)};
  const std::size_t lines = rows.size() / places;  // the last option changes fastest
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [choices, plan, verdict] = rows[i];
    if (i < lines) {
      chart.lines.push_back({fmt::format("{}", fmt::join(choices.begin() + 1, choices.end(), " ")),
                             kColours[i % 6], 1.5 * static_cast<double>(1 + i / 6)});
    }
    if (i % lines == 0) chart.words.push_back(choices[0]);
    const double value = timed ? verdict.tokens_per_s : 1e-9 * static_cast<double>(plan.reserved);
    chart.lines[i % lines].points.push_back(
        {static_cast<double>(i / lines), value, value, timed && !verdict.fits});
  }
  chart.words.resize(places + 1);  // a single place has an empty one beside it
  const double height = std::max(320.0, 18 * static_cast<double>(lines));
  return svg_page(height + 80, draw_chart(chart, 40, height));
}

void print_table(const PlanOptions& o, const std::vector<Planned>& rows,
                 const std::vector<std::string>& names) {
  for (const std::string& name : names) fmt::print("{:<17}", name);
  fmt::print("{:>10}", "GB");
  if (!o.machine.empty()) {
    fmt::print("{:>6}{:>11}{:>12}{:>8}{:>12}", "fits", "step, s", "tokens/s", "mfu", "exposed");
  }
  fmt::print("\n");
  for (const auto& [choices, plan, v] : rows) {
    for (const std::string& choice : choices) fmt::print("{:<17}", choice);
    fmt::print("{:>10.2f}", 1e-9 * static_cast<double>(plan.reserved));
    if (plan.time) {
      fmt::print("{:>6}{:>11.4g}{:>12.0f}{:>6.1f} %{:>10.1f} %", v.fits ? "yes" : "no", v.seconds,
                 v.tokens_per_s, 100 * v.mfu,
                 100 * (v.exposed_gathers + v.exposed_reductions) / v.seconds);
    }
    fmt::print("\n");
  }
}

}  // namespace

int sweep(const PlanOptions& o) {
  const std::vector<std::string> names = split(o.sweep);
  std::vector<std::string> options = names;
  std::ranges::replace(options, "batch", "batch_size");
  const std::vector<Planned> rows = plan_all(o, options);
  print_table(o, rows, names);
  if (!o.picture.empty()) write_text("--picture", o.picture, drawing(o, rows, options));
  return 0;
}

}  // namespace nanofsdp::cli
