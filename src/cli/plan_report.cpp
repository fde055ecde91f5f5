#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/planned.h"
#include "cli/option_kinds.h"
#include "comm/run_ranks.h"

namespace nanofsdp::cli {
namespace {

using plan::Machine;
using plan::Recompute;

// More passes would need gigabytes of log.
constexpr std::int64_t kMostPasses = 20'000;
// With more elements, 64 bits might not be enough for the bytes.
constexpr double kMostElements = 1e17;

int threads_of(const TrainOptions& t, const Machine* machine) {
  if (machine == nullptr || t.threads > 0) return comm::threads_per_rank(t, t.ranks);
  return std::max(1, static_cast<int>(machine->cores) / t.ranks);
}

std::string seconds(double s) {
  return s < 1 ? fmt::format("{:.2f} ms", 1e3 * s) : fmt::format("{:.3f} s", s);
}

std::string gigabytes(double bytes) { return fmt::format("{:.2f} GB", 1e-9 * bytes); }

// The options that people try first, with their values.
std::vector<std::pair<std::string, std::vector<std::string>>> remedies(const PlanOptions& o) {
  const TrainOptions& t = o.training;
  std::vector<std::string> recompute = {"selective", "block"}, rows, strategy, ranks;
  recompute.erase(recompute.begin(), recompute.begin() + static_cast<int>(o.practice.recompute));
  if (o.parameters > 0) recompute.clear();
  for (std::int64_t n = t.batch_size / 2; n >= 1; n /= 2) {
    if (n * t.gradient_accumulation_steps >= t.ranks) rows.push_back(fmt::to_string(n));
  }
  using enum fsdp::ShardingStrategy;
  if (t.strategy != full_shard && t.ranks > 1) strategy.emplace_back("full_shard");
  if (fsdp::sharding_of(t.strategy).optimizer || t.ranks == 1) {
    for (int times = 2; times <= 64; times *= 2) ranks.push_back(fmt::to_string(times * t.ranks));
  }
  return {{"recompute", recompute}, {"batch_size", rows}, {"strategy", strategy}, {"ranks", ranks}};
}

// Advice with at most one value for each option. A unit that is discarded is whole while it
// computes, so no number of ranks makes it smaller.
std::string what_would_fit(const PlanOptions& o, const plan::Plan& plan, double memory) {
  const auto whole = static_cast<double>(plan.of(MemoryClass::unsharded_parameters) +
                                         plan.of(MemoryClass::unsharded_gradients));
  if (whole > memory && sharding_of(o.training.strategy).reshards_after_forward) {
    return fmt::format("  whole units alone take {}: the model needs smaller ones\n",
                       gigabytes(whole));
  }
  std::string text;
  for (const auto& [option, values] : remedies(o)) {
    for (const std::string& value : values) {
      PlanOptions other = changed(o, option, value);
      other.machine.clear();
      const auto peak = static_cast<double>(plan_of(other).reserved);
      if (peak > memory) continue;
      text += fmt::format("  --{}={} would take {}\n", option, value, gigabytes(peak));
      break;
    }
  }
  return text.empty() ? "  no single change makes it fit\n" : text;
}

}  // namespace

plan::Plan plan_of(const PlanOptions& o) {
  const TrainOptions& t = o.training;
  const std::unique_ptr<nn::Module> model = o.make_model();
  std::optional<Machine> machine;
  if (!o.machine.empty()) machine = o.find_machine();
  const Machine* const on = machine ? &*machine : nullptr;
  plan::Run run = bench::planned_run(
      t, t, t.ranks - 1, 1, o.is_gpu() ? Device::simulated_cuda : Device::simulated_cpu,
      t.transport == comm::Transport::gloo ? 1 : static_cast<int>(on ? on->node_ranks : t.ranks));
  run.options.wrap_policy = plan::is_block;
  const auto blocks = std::ssize(fsdp::wrap(*model, run.options.wrap_policy)) - 1;
  run.options.forward_prefetch = static_cast<int>(
      // The same limit as in a training.
      std::min<std::int64_t>(run.options.forward_prefetch, blocks));
  const auto passes = std::ssize(run.work.rows) * (blocks + 1);
  require(passes <= kMostPasses, "gradient_accumulation_steps",
          fmt::format("fewer for so many layers: at most {} passes of layers", kMostPasses),
          t.gradient_accumulation_steps);
  double made = 0;  // elements that all products make for a token
  for (const nn::Parameter* p : model->named_parameters()) {
    if (p->shape.rank() == 2) made += static_cast<double>(p->shape[0]);
  }
  const auto tokens = static_cast<double>(std::ranges::max(run.work.rows) * run.work.tokens);
  require(made * tokens <= kMostElements, "batch_size", "fewer tokens, for so large a model",
          t.batch_size);
  run.threads = threads_of(t, on);
  return plan::plan(*model, run, on);
}

nlohmann::ordered_json json_of(const PlanOptions& o, const plan::Plan& plan) {
  const TrainOptions& t = o.training;
  nlohmann::ordered_json json = {{"model", o.parameters > 0 ? "parameters" : o.model},
                                 {"parameters", plan.numel()},
                                 {"ranks", t.ranks},
                                 {"strategy", fsdp::name_of(t.strategy)}};
  for (const MemoryClass c : kMemoryClasses) json["bytes"][std::string(name_of(c))] = plan.of(c);
  json["reserved_bytes"] = plan.reserved;
  json["peak_bytes"] = plan.total_peak;
  json["all_gathers"] = plan.step.all_gathers;
  json["reduce_scatters"] = plan.step.reduce_scatters;
  json["all_reduces"] = plan.step.all_reduces;
  json["bytes_sent"] = plan.step.bytes_sent;
  json["bytes_across"] = plan.bytes_across;
  if (!plan.time) return json;
  const Machine machine = o.find_machine();
  const bool rounded = fsdp::compute_dtype(t.precision, t.device) == DType::bfloat16;
  const int threads = threads_of(t, &machine);
  const double cores = o.is_gpu() ? 1 : std::min(1.0 * threads, machine.cores / t.ranks);
  const double peak = cores * (rounded ? machine.products_bfloat16 : machine.products_float32);
  const auto& [seconds, busy, exposed] = *plan.time;
  const double memory = o.is_gpu() ? machine.memory : machine.memory / t.ranks;
  json["machine"] = o.machine;
  json["seconds"] = seconds;
  json["tokens_per_s"] = static_cast<double>(t.tokens_of_step()) / t.ranks / seconds;
  PlanOptions plain = o;  // products that are computed again do not count
  plain.practice.recompute = Recompute::none;
  plain.machine.clear();
  json["mfu"] = plan_of(plain).products / seconds / peak;
  json["communication_seconds"] = busy[1] + busy[2];
  json["exposed_seconds"] = {{"all_gathers", exposed[1]}, {"reductions", exposed[2]}};
  json["memory_bytes"] = memory;
  json["fits"] = static_cast<double>(plan.reserved) <= memory;
  return json;
}

std::string explain_time(const PlanOptions& o, const plan::Plan& plan) {
  if (!plan.time) return "";
  const auto json = json_of(o, plan);
  const double tokens = json["tokens_per_s"], mfu = json["mfu"], memory = json["memory_bytes"];
  const double gathers = plan.time->exposed[1], reductions = plan.time->exposed[2];
  std::string text = fmt::format("on {}\n", o.machine);
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<22}{}\n", name, value);
  };
  row("step", seconds(json["seconds"]));
  row("tokens/s", fmt::format("{:.0f} a rank, {:.0f} in all", tokens, tokens * o.training.ranks));
  row("mfu", fmt::format("{:.1f} %", 100 * mfu));
  row("communication",
      fmt::format("{}, of which {} exposed: {} for parameters, {} for gradients",
                  seconds(json["communication_seconds"]), seconds(gathers + reductions),
                  seconds(gathers), seconds(reductions)));
  row("memory", fmt::format("{} of {}: {}", gigabytes(static_cast<double>(plan.reserved)),
                            gigabytes(memory), json["fits"] ? "fits" : "does not fit"));
  if (!json["fits"]) text += what_would_fit(o, plan, memory);
  return text + "\n";
}

}  // namespace nanofsdp::cli
