#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "bench/numbers.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/option_kinds.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "cli/recipes.h"
#include "cli/trace_file.h"

namespace nanofsdp::cli {
namespace {

std::string in_gigabytes(double bytes) { return fmt::format("{:>10.4g}", bytes / 1e9); }

std::string row(const std::string& name, double bytes) {
  return bytes > 0 ? fmt::format("  {:<60}{}\n", name, in_gigabytes(bytes)) : "";
}

// The numbers of figure 1 in the ZeRO paper, and the terms that lectures on FSDP add up for Llama
// 70B.
std::string explain_papers(double numel, double largest, int ranks) {
  std::string text = fmt::format("{:<24}{:>8}{:>10}{:>10}{:>10}{:>10}\n", "papers count, GB a rank",
                                 "bytes", "ZeRO-0", "ZeRO-1", "ZeRO-2", "ZeRO-3");
  for (const Recipe& recipe : kRecipes) {
    text += fmt::format("  {:<22}{:>8}", recipe.name, recipe.bytes_a_parameter());
    for (int stage = 0; stage < 4; ++stage) {
      text += in_gigabytes(numel * recipe.bytes_a_parameter(stage, ranks));
    }
    text += '\n';
  }
  return text + row("a float32 shard: of weights, gradients, each moment", 4 * numel / ranks) +
         row("the largest unit in bfloat16: weights, gradients", 2 * largest);
}

void print_plan(const PlanOptions& o, const plan::Plan& plan) {
  const TrainOptions& t = o.training;
  const std::int64_t numel = std::reduce(plan.units.begin(), plan.units.end());
  const std::int64_t largest = std::ranges::max(plan.units);
  const int F = t.shard_size > 0 ? t.shard_size : t.ranks;
  fmt::print("model      {} parameters in {} units: {}\n", grouped(numel), plan.units.size(),
             unit_sizes(plan.units));
  fmt::print("sharding   {}{}, {} of {}; {} elements a shard, padding {}\n\n",
             fsdp::name_of(t.strategy), sharding_details(t), plural(t.ranks / F, "group"),
             plural(F, "rank"), grouped(plan.shard), grouped(F * plan.shard - numel));
  fmt::print("{}\n{}{}", explain_plan(plan, numel, nullptr, nullptr), explain_time(o, plan),
             explain_papers(static_cast<double>(numel), static_cast<double>(largest), F));
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
  if (o.json) fmt::print("{}\n", json_of<nlohmann::ordered_json>(o, plan).dump(2));
  return 0;
}

}  // namespace nanofsdp::cli
