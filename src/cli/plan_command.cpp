#include <fmt/format.h>

#include <numeric>

#include "base/json.h"
#include "bench/numbers.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/option_kinds.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "cli/trace_file.h"

namespace nanofsdp::cli {
namespace {

void print_plan(const PlanOptions& o, const plan::Plan& plan) {
  const TrainOptions& t = o.training;
  const std::int64_t numel = std::reduce(plan.units.begin(), plan.units.end());
  const int F = t.shard_size > 0 ? t.shard_size : t.ranks;
  fmt::print("model      {} parameters in {} units: {}\n", grouped(numel), plan.units.size(),
             unit_sizes(plan.units));
  fmt::print("sharding   {}{}, {} of {}; {} elements a shard, padding {}\n\n",
             fsdp::name_of(t.strategy), sharding_details(t), plural(t.ranks / F, "group"),
             plural(F, "rank"), grouped(plan.shard), grouped(F * plan.shard - numel));
  fmt::print("{}\n{}", explain_plan(plan, numel, nullptr, nullptr), explain_time(o, plan));
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
