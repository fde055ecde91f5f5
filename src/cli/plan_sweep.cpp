#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/option_kinds.h"
#include "cli/outputs.h"
#include "cli/plan_report.h"
#include "cli/run_picture.h"

namespace nanofsdp::cli {
namespace {

// One value of something that is varied.
struct Choice {
  std::string name;
  std::function<void(PlanOptions&)> take;
};
using Axis = std::vector<Choice>;

// 1, 2, 4 ... and the last.
std::vector<std::int64_t> doublings(std::int64_t last) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = 1; n < last; n *= 2) all.push_back(n);
  all.push_back(last);
  return all;
}

Axis ranks_up_to(const PlanOptions& o) {
  Axis axis;
  const std::int64_t G = o.training.gradient_accumulation_steps, W = o.training.ranks;
  for (const std::int64_t ranks : doublings(W)) {
    if (o.training.shard_size > 0 && ranks % o.training.shard_size != 0) continue;
    axis.push_back({fmt::to_string(ranks), [=](PlanOptions& to) {
                      to.training.ranks = static_cast<int>(ranks);
                      if (G % W == 0) to.training.gradient_accumulation_steps = G / W * ranks;
                      if (ranks > 1) return;
                      to.training.strategy = fsdp::ShardingStrategy::no_shard;
                      to.training.shard_size = 0;
                    }});
  }
  return axis;
}

Axis rows_up_to(const PlanOptions& o) {
  Axis axis;
  for (const std::int64_t rows : doublings(o.training.batch_size)) {
    axis.push_back({fmt::to_string(rows), [=](PlanOptions& to) { to.training.batch_size = rows; }});
  }
  return axis;
}

// hybrid_shard only where groups are named.
Axis strategies(const PlanOptions& o) {
  Axis axis;
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    if (sharding.replicates && o.training.shard_size == 0) continue;
    axis.push_back({std::string(sharding.name), [=](PlanOptions& to) {
                      if (to.training.ranks == 1) return;
                      to.training.strategy = sharding.strategy;
                      if (!sharding.replicates) to.training.shard_size = 0;
                    }});
  }
  return axis;
}

Axis recomputations() {
  using enum plan::Recompute;
  Axis axis;
  for (const auto& [name, value] :
       {std::pair("none", none), {"selective", selective}, {"block", block}}) {
    axis.push_back({name, [value = value](PlanOptions& to) { to.practice.recompute = value; }});
  }
  return axis;
}

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> all;
  std::istringstream text(words);
  for (std::string word; std::getline(text, word, ',');) all.push_back(word);
  return all;
}

Axis axis_of(const std::string& name, const PlanOptions& o) {
  if (name == "ranks") return ranks_up_to(o);
  if (name == "batch_size" || name == "batch") return rows_up_to(o);
  if (name == "strategy") return strategies(o);
  require(name == "recompute", "sweep", "ranks, batch_size, strategy or recompute, with commas",
          "'" + name + "'");
  return recomputations();
}

// A row of the table.
struct Planned {
  std::vector<std::string> choices;
  plan::Plan plan;
  Verdict verdict;
};

// All combinations, the last axis fastest.
std::vector<Planned> plan_all(const PlanOptions& o, const std::vector<Axis>& axes) {
  std::vector<Planned> all;
  std::vector<std::size_t> at(axes.size());
  while (true) {
    PlanOptions chosen = o;
    Planned row;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      axes[i][at[i]].take(chosen);
      row.choices.push_back(axes[i][at[i]].name);
    }
    row.plan = plan_of(chosen);
    if (row.plan.time) row.verdict = judge(chosen, row.plan);
    all.push_back(std::move(row));
    std::size_t i = axes.size();
    while (i > 0 && ++at[i - 1] == axes[i - 1].size()) at[--i] = 0;
    if (i == 0) return all;
  }
}

constexpr std::array kColours = {"#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#0072b2", "#d55e00"};

// Tokens a second of a rank, or without a machine bytes at the peak, over the first choice; a line
// for each of the others. What does not fit is a ring.
std::string drawing(const PlanOptions& o, const std::vector<Planned>& rows,
                    const std::vector<std::string>& names) {
  constexpr double kLeft = 90, kTop = 40, kWidth = 640, kHeight = 320;
  const bool timed = !o.machine.empty();
  const auto value = [&](const Planned& row) {
    return timed ? row.verdict.tokens_per_s : 1e-9 * static_cast<double>(row.plan.reserved);
  };
  std::vector<std::string> places, lines;
  double most = 0;
  const auto line_of = [](const Planned& row) {
    std::string name;
    for (std::size_t i = 1; i < row.choices.size(); ++i) name += " " + row.choices[i];
    return name;
  };
  const auto place = [](std::vector<std::string>& in, const std::string& name) {
    const auto found = std::ranges::find(in, name);
    return (found == in.end() ? in.insert(found, name) : found) - in.begin();
  };
  for (const Planned& row : rows) {
    place(places, row.choices[0]), place(lines, line_of(row));
    most = std::max(most, value(row));
  }
  const auto x = [&](std::ptrdiff_t i) {
    return kLeft + kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(places.size());
  };
  const auto y = [&](double v) { return kTop + kHeight * (1 - v / (1.05 * most)); };
  std::string svg = R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 420"
font-family="sans-serif" font-size="13"><rect width="900" height="420" fill="white"/>
)";
  svg +=
      svg_text(kLeft, 22, "start",
               fmt::format("{}{}: {}", o.model, timed ? " on " + o.machine : "",
                           timed ? "tokens/s of a rank (a ring: does not fit)" : "GB of a rank"));
  for (int i = 0; i <= 4; ++i) {
    const double v = most * i / 4;
    svg += fmt::format(R"(<path d="M{} {:.1f}h{}" stroke="#ddd"/>)", kLeft, y(v), kWidth) +
           svg_text(kLeft - 8, y(v) + 4, "end", fmt::format("{:.4g}", v));
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    svg += svg_text(x(static_cast<std::ptrdiff_t>(i)), kTop + kHeight + 20, "middle", places[i]);
  }
  svg += svg_text(kLeft + kWidth / 2, kTop + kHeight + 42, "middle", names[0]);
  for (std::size_t l = 0; l < lines.size(); ++l) {
    const char* colour = kColours[l % kColours.size()];
    std::string corners, dots;
    for (const Planned& row : rows) {
      if (line_of(row) != lines[l]) continue;
      const double at = x(place(places, row.choices[0])), v = y(value(row));
      corners += fmt::format("{:.1f},{:.1f} ", at, v);
      const bool fits = !timed || row.verdict.fits;
      dots += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="{}" stroke="{}"/>)", at, v,
                          fits ? colour : "white", colour) +
              "\n";
    }
    svg += fmt::format(R"(<polyline points="{}" fill="none" stroke="{}"/>)", corners, colour) +
           "\n" + dots;
    if (lines.size() > 1) {
      svg += svg_text(kLeft + kWidth + 10, kTop + 18.0 * static_cast<double>(l + 1), "start",
                      lines[l], colour);
    }
  }
  return svg + "</svg>\n";
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
  std::vector<Axis> axes;
  for (const std::string& name : names) axes.push_back(axis_of(name, o));
  const std::vector<Planned> rows = plan_all(o, axes);
  print_table(o, rows, names);
  if (!o.picture.empty()) write_text("--picture", o.picture, drawing(o, rows, names));
  return 0;
}

}  // namespace nanofsdp::cli
