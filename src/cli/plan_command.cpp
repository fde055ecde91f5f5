#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "bench/numbers.h"
#include "cli/chart.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/option_kinds.h"
#include "cli/outputs.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "cli/trace_file.h"

namespace nanofsdp::cli {
namespace {

// The values of an option in a sweep. For numbers they are 1, 2, 4 ... and the option's own.
std::vector<std::string> values_of(const std::string& option, const PlanOptions& o) {
  const TrainOptions& t = o.training;
  const bool groups = t.shard_size > 0;
  if (option == "recompute") return {"none", "selective", "block"};
  std::vector<std::string> all;
  if (option == "strategy") {
    for (const fsdp::Sharding& sharding : fsdp::kShardings) {
      if (groups || !sharding.replicates) all.emplace_back(sharding.name);
    }
    return all;
  }
  require(option == "ranks" || option == "batch_size", "sweep",
          "ranks, batch_size, strategy or recompute, with commas", "'" + option + "'");
  const std::int64_t last = option == "ranks" ? t.ranks : t.batch_size;
  for (std::int64_t n = 1; n <= last; n = n == last ? last + 1 : std::min(2 * n, last)) {
    if (option != "ranks" || !groups || n % t.shard_size == 0) all.push_back(fmt::to_string(n));
  }
  return all;
}

// A row of the table.
struct Planned {
  std::vector<std::string> choices{};
  nlohmann::ordered_json plan{};
  std::string refused{};  // why there is no plan
};

Planned planned(PlanOptions o, const std::vector<std::string>& options,
                const std::vector<std::string>& choices) try {
  for (std::size_t i = 0; i < options.size(); ++i) o = changed(o, options[i], choices[i]);
  return {choices, json_of(o, plan_of(o))};
} catch (const UsageError& error) {
  return {.choices = choices, .refused = error.what()};
}

// A row for each combination of values. The value of the last option changes first.
std::vector<Planned> rows_of(const PlanOptions& o, const std::vector<std::string>& options) {
  std::vector<Planned> rows = {{}};
  for (const std::string& option : options) {
    std::vector<Planned> longer;
    for (const Planned& row : rows) {
      for (const std::string& value : values_of(option, o)) {
        longer.emplace_back(row).choices.push_back(value);
      }
    }
    rows = std::move(longer);
  }
  for (Planned& row : rows) row = planned(o, options, row.choices);
  return rows;
}

constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73",
                                    "#d55e00", "#56b4e9", "#cc79a7"};

// Tokens a second of a rank, or without a machine bytes at the peak, over the first axis; a line
// for each choice of the others. A plan that does not fit is a ring.
std::string drawing(const PlanOptions& o, const std::vector<Planned>& rows,
                    const std::vector<std::string>& options) {
  const bool timed = !o.machine.empty();
  const std::size_t places = values_of(options[0], o).size();
  Chart chart{
      .title = timed ? o.model + " on " + o.machine + ": tokens/s of a rank (a ring: does not fit)"
                     : o.model + ": GB of a rank",
      .across = options[0],
      .last = static_cast<double>(std::max<std::size_t>(places, 2) - 1)};
  const std::size_t lines = rows.size() / places;  // the last axis is the fastest
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [choices, plan, refused] = rows[i];
    if (i < lines) {
      chart.lines.push_back({fmt::format("{}", fmt::join(choices.begin() + 1, choices.end(), " ")),
                             kColours[i % 6], 1.5 * static_cast<double>(1 + i / 6)});
    }
    if (i % lines == 0) chart.words.push_back(choices[0]);
    if (!refused.empty()) continue;
    const double value = plan[timed ? "tokens_per_s" : "reserved_bytes"];
    const double height = timed ? value : 1e-9 * value;
    chart.lines[i % lines].points.push_back(
        {static_cast<double>(i / lines), height, height, timed && !plan["fits"]});
  }
  chart.words.resize(places + 1);  // one place alone has an empty one beside it
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
  for (const auto& [choices, plan, refused] : rows) {
    for (const std::string& choice : choices) fmt::print("{:<17}", choice);
    const double bytes = plan.value("reserved_bytes", 0.0), seconds = plan.value("seconds", 0.0);
    fmt::print("{:>10}", refused.empty() ? fmt::format("{:.2f}", 1e-9 * bytes) : "no: " + refused);
    if (seconds > 0) {
      const double mfu = plan["mfu"], tokens = plan["tokens_per_s"];
      const double gathers = plan["exposed_seconds"]["all_gathers"],
                   reductions = plan["exposed_seconds"]["reductions"];
      fmt::print("{:>6}{:>11.4g}{:>12.0f}{:>6.1f} %{:>10.1f} %", plan["fits"] ? "yes" : "no",
                 seconds, tokens, 100 * mfu, 100 * (gathers + reductions) / seconds);
    }
    fmt::print("\n");
  }
}

int sweep(const PlanOptions& o) {
  const std::regex comma(",");
  const std::vector<std::string> options(
      std::sregex_token_iterator(o.sweep.begin(), o.sweep.end(), comma, -1),
      std::sregex_token_iterator());
  const std::vector<Planned> rows = rows_of(o, options);
  const bool none = std::ranges::count(rows, "", &Planned::refused) == 0;
  NANOFSDP_REFUSE_IF(none, .what = rows[0].refused);
  print_table(o, rows, options);
  if (!o.picture.empty()) write_text("--picture", o.picture, drawing(o, rows, options));
  return 0;
}

void print_plan(const PlanOptions& o, const plan::Plan& plan) {
  const TrainOptions& t = o.training;
  const int F = t.shard_size > 0 ? t.shard_size : t.ranks;
  fmt::print("model      {} parameters in {} units: {}\n", grouped(plan.numel()), plan.units.size(),
             unit_sizes(plan.units));
  const std::string groups = plural(t.ranks / F, "group") + " of " + plural(F, "rank");
  fmt::print("{}\n\n",
             sharding_line(t, t.strategy, groups, plan.shard, F * plan.shard - plan.numel()));
  fmt::print("{}\n{}", explain_plan(plan, nullptr, nullptr), explain_time(o, plan));
}

}  // namespace

int plan_command(const std::vector<std::string>& args) {
  PlanOptions o = parse_plan_options(args);
  TrainOptions& t = o.training;
  const bool reads = t.vocab_size == 0;  // for --text
  if (reads) t.vocab_size = data::load_dataset(t, t.block_size).tokenizer().vocab_size();
  if (!o.sweep.empty()) return sweep(o);
  const plan::Plan plan = plan_of(o);
  if (!t.trace.empty()) {
    require(plan.time.has_value(), "trace", "a --machine beside it", "none");
    write_trace(plan.spans, t.ranks - 1, t.trace);
  }
  if (!o.json) print_plan(o, plan);
  if (o.json) fmt::print("{}\n", json_of(o, plan).dump(2));
  return 0;
}

}  // namespace nanofsdp::cli
