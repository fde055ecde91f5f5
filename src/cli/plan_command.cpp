#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "bench/numbers.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/option_kinds.h"
#include "cli/outputs.h"
#include "cli/plan_report.h"
#include "cli/trace_file.h"

namespace nanofsdp::cli {
namespace {

using nlohmann::ordered_json;

// The values of an option in a sweep, as words to type. For numbers they are 1, 2, 4 ... and the
// option's own.
Words values_of(const std::string& option, const PlanOptions& o) {
  const TrainOptions& t = o.training;
  const bool groups = t.shard_size > 0, ranks = option == "ranks";
  if (option == "recompute")
    return {" --recompute=none", " --recompute=selective", " --recompute=block"};
  Words all;
  for (const fsdp::Sharding& s : fsdp::kShardings) {
    const char* whole = groups && !s.replicates ? " --shard_size=0" : "";
    if (groups || !s.replicates) all.push_back(fmt::format(" --strategy={}{}", s.name, whole));
  }
  if (option == "strategy") return all;
  require(ranks || option == "batch_size", "sweep",
          "ranks, batch_size, strategy or recompute, with commas", "'" + option + "'");
  all.clear();
  const std::int64_t last = ranks ? t.ranks : t.batch_size;
  for (std::int64_t n = 1; n <= last; n = n == last ? last + 1 : std::min(2 * n, last))
    if (!ranks || !groups || n % t.shard_size == 0)
      all.push_back(ranks ? ranks_typed(o, n) : fmt::format(" --batch_size={}", n));
  return all;
}

// Seconds in which computation waits for collectives.
double exposed(const ordered_json& plan) {
  const ordered_json& seconds = plan["exposed_seconds"];
  return seconds["all_gathers"].get<double>() + seconds["reductions"].get<double>() +
         seconds.value("sums", 0.0);
}

void print_options(const PlanOptions& o) {
  for (const std::string& note : o.training.notes) fmt::print("note: {}\n", note);
  fmt::print("planned   ");
  for (const auto& [name, value] : o.planned.items())
    fmt::print(" --{}={}", name, value.get<std::string>());
  fmt::print("\n");
}

void print_table(const PlanOptions& o, const std::vector<ordered_json>& rows) {
  fmt::print("{:<60}{:>10}{}\n", " typed", "GiB",
             o.machine.empty() ? "" : "  fits    step, s    tokens/s     mfu     exposed");
  for (const ordered_json& row : rows) {
    fmt::print("{:<60}", row["typed"].get<std::string>());
    fmt::print("{:>10}", row.contains("refused") ? "no: " + row["refused"].get<std::string>()
                                                 : fmt::format("{:.2f}", gib(row["peak_bytes"])));
    if (const double seconds = row.value("seconds", 0.0); seconds > 0)
      fmt::print("{:>6}{:>11.4g}{:>12.0f}{:>6.1f} %{:>10.1f} %", row["fits"] ? "yes" : "no",
                 seconds, row.value("tokens_per_s", 0.0), 100 * row.value("mfu", 0.0),
                 100 * exposed(row) / seconds);
    fmt::print("\n");
  }
}

int sweep(const PlanOptions& o) {
  std::istringstream typed(o.sweep);
  Words all = {""};
  for (std::string option; std::getline(typed, option, ',');)
    for (const std::string& words : std::exchange(all, {}))
      for (const std::string& more : values_of(option, o)) all.push_back(words + more);
  std::vector<ordered_json> rows;
  for (const std::string& words : all) rows.push_back(row_of(o, fitted(o, words)));
  const auto refused = [](const ordered_json& row) { return row.contains("refused"); };
  NANOFSDP_REFUSE_IF(std::ranges::all_of(rows, refused), .what = rows[0]["refused"]);
  if (!o.json) print_options(o);
  o.json ? fmt::print("{}\n", ordered_json(rows).dump(2)) : print_table(o, rows);
  return 0;
}

std::string milliseconds(double s) {
  return s < 1 ? fmt::format("{:.2f} ms", 1e3 * s) : fmt::format("{:.3f} s", s);
}

// The times of a step, and whether the plan fits, or what would fit.
void print_time(const PlanOptions& o, const ordered_json& json) {
  const bool fits = json["fits"];
  fmt::print("on {}\n  {:<22}{}, and {} more for late ranks\n", o.machine, "step",
             milliseconds(json["seconds"]), milliseconds(json["straggler_seconds"]));
  if (o.parameters == 0) {
    const double tokens = json["tokens_per_s"], mfu = json["mfu"], hfu = json["hfu"];
    fmt::print(
        "  {:<22}{:.0f} a rank, {:.0f} in all, with late ranks; {} in a step\n"
        "  {:<22}{:.1f} %, and {:.1f} % with what is recomputed (hfu); half of attention's pairs\n",
        "tokens/s", tokens, tokens * o.ranks(), grouped(o.training.tokens_of_step()), "mfu",
        100 * mfu, 100 * hfu);
  }
  const ordered_json& waits = json["exposed_seconds"];
  fmt::print(
      "  {:<22}{}, of which {} exposed: {} for parameters, {} for gradients{}\n", "communication",
      milliseconds(json["communication_seconds"]), milliseconds(exposed(json)),
      milliseconds(waits["all_gathers"]), milliseconds(waits["reductions"]),
      o.practice.tensor == 1 ? ""
                             : fmt::format(", {} for activations", milliseconds(waits["sums"])));
  fmt::print("  {:<22}{:.2f} GiB at its largest, {:.2f} GiB held back, of {:.2f} GiB: {}\n{}\n",
             "memory", gib(json["peak_bytes"]), gib(json["reserve_bytes"]),
             gib(json["memory_bytes"]), fits ? "fits" : "does not fit",
             fits ? "" : what_would_fit(o));
  if (o.fit == 0 || !fits) return;
  if (o.training.unsharded_blocks == 0)
    return fmt::print("  {:<22}none that stays unsharded makes a step 1 % faster\n", "blocks");
  const auto row = [&](int n) { return row_of(o, fmt::format(" --unsharded_blocks={}", n)); };
  print_table(o, {row(0), row(o.training.unsharded_blocks)});
}

void print_plan(const PlanOptions& o, const plan::Plan& plan) {
  const TrainOptions& t = o.training;
  const ordered_json json = json_of(o, plan);
  print_options(o);
  const int F = t.shard_size > 0 ? t.shard_size : t.ranks;
  const std::string groups = plural(t.ranks / F, "group") + " of " +
                             plural(F, o.practice.tensor > 1 ? "tensor group" : "rank");
  fmt::print("model      {} in {}: {}\n{}\n\n{}\n", plural(plan.numel(), "parameter"),
             plural(std::ssize(plan.units), "unit"), unit_sizes(plan.units),
             sharding_line(t, t.strategy, groups, plan.shard, F * plan.shard - plan.numel()),
             explain_plan(plan));
  if (plan.time) print_time(o, json);
}

}  // namespace

int plan_command(const std::vector<std::string>& args) {
  PlanOptions o = parse_plan_options(args);
  TrainOptions& t = o.training;
  if (!t.trace.empty()) require_output("--trace", t.trace, kTraceBegins);
  if (t.vocab_size == 0)  // for --text
    t.vocab_size = data::load_dataset(t, t.block_size).tokenizer().vocab_size();
  if (!o.sweep.empty()) return sweep(o);
  const std::vector<std::string> notes = t.notes;  // those of the options that a person typed
  if (o.fit > 0) o = typed_behind(o, fitted(o, ""));
  t.notes = notes;
  const plan::Plan plan = plan_of(o);
  if (!t.trace.empty()) {
    require(plan.time.has_value(), "trace", "a --machine beside it", "none");
    const double end = std::ranges::max(plan.spans, {}, &Span::end).end;
    write_trace(plan.spans, end - plan.time->seconds, 0, t.trace);
  }
  o.json ? fmt::print("{}\n", json_of(o, plan).dump(2)) : print_plan(o, plan);
  return 0;
}

}  // namespace nanofsdp::cli
