#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "bench/planned.h"
#include "cli/option_kinds.h"

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

std::string gibibytes(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// The plan with these words typed behind the options; none if they are refused.
std::optional<plan::Plan> plan_with(const PlanOptions& o, const std::string& words) try {
  return plan_of(typed_behind(o, words), /*timed=*/false);
} catch (const UsageError&) {
  return {};
}

// The changes that people try first, as words with a blank before each. Later ones of a row save
// more.
std::vector<Words> remedies(const PlanOptions& o) {
  const TrainOptions& t = o.training;
  Words recompute = {" --recompute=selective", " --recompute=block"}, rows, ranks;
  recompute.erase(recompute.begin(), recompute.begin() + static_cast<int>(o.practice.recompute));
  const auto is_zero = [](const std::string& word) { return word.starts_with("--zero"); };
  const bool zero = std::ranges::any_of(o.arguments, is_zero), alone = t.ranks == 1;
  const std::string full = zero ? " --zero=3" : " --strategy=full_shard";
  for (auto n = t.batch_size / 2; n >= 1; n /= 2)
    rows.push_back(fmt::format(" --batch_size={}", n));
  for (int n = 2 * t.ranks; n <= 64 * t.ranks; n *= 2)
    ranks.push_back(ranks_typed(t, n) + (alone ? full : ""));
  Words sharding;
  if (!alone && t.strategy != fsdp::ShardingStrategy::full_shard)
    sharding = {full + (t.shard_size > 0 ? " --shard_size=0" : "")};
  std::vector<Words> all = {recompute, t.no_sync ? Words{" --no_sync=False"} : Words(), sharding,
                            rows, ranks};
  for (Words& row : all)
    std::erase_if(row, [&](const std::string& words) { return !plan_with(o, words); });
  std::erase(all, Words());
  return all;
}

// Names the largest part of the memory of a plan that is too large after all changes, and a way to
// make that part smaller.
std::string beyond_fsdp(const plan::Plan& plan) {
  const auto units =
      plan.of(MemoryClass::unsharded_parameters) + plan.of(MemoryClass::unsharded_gradients);
  const auto activations = plan.of(MemoryClass::activations);
  const auto shards = plan.total_peak - units - activations;
  const auto [bytes, what, help] =
      std::max({std::tuple(shards, "shards", "more ranks, or offloading to the host"),
                std::tuple(units, "whole units", "smaller units, or tensor parallelism"),
                std::tuple(activations, "activations", "shorter rows, or context parallelism")});
  return fmt::format("  FSDP alone cannot: after all changes {} take {}; what helps is {}\n", what,
                     gibibytes(bytes), help);
}

}  // namespace

plan::Plan plan_of(const PlanOptions& o, bool timed) {
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
  return plan::plan(*model, run, timed ? on : nullptr);
}

nlohmann::ordered_json json_of(const PlanOptions& o, const plan::Plan& plan) {
  const TrainOptions& t = o.training;
  nlohmann::ordered_json json = {{"model", o.parameters > 0 ? "parameters" : o.model},
                                 {"parameters", plan.numel()},
                                 {"ranks", t.ranks},
                                 {"strategy", fsdp::name_of(t.strategy)}};
  json["planned"] = o.planned;
  if (!t.notes.empty()) json["notes"] = t.notes;
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
  const auto& [seconds, busy, exposed, communication] = *plan.time;
  const double reserve = o.reserve * (1 << 30);
  const double memory = o.is_gpu() ? machine.memory : machine.memory / t.ranks;
  json["machine"] = o.machine;
  json["seconds"] = seconds;
  if (o.parameters == 0) {
    json["tokens_per_s"] = static_cast<double>(t.tokens_of_step()) / t.ranks / seconds;
    PlanOptions plain = o;  // products that are computed again do not count
    plain.practice.recompute = Recompute::none;
    json["mfu"] = plan_of(plain, /*timed=*/false).products / seconds / peak;
    json["hfu"] = plan.products / seconds / peak;
  }
  json["communication_seconds"] = communication;
  json["exposed_seconds"] = {{"all_gathers", exposed[1]}, {"reductions", exposed[2]}};
  json["memory_bytes"] = memory;
  json["reserve_bytes"] = reserve;
  json["fits"] = static_cast<double>(plan.total_peak) + reserve <= memory;
  return json;
}

std::string what_would_fit(const PlanOptions& o, const nlohmann::ordered_json& json) {
  const double most = json["memory_bytes"].get<double>() - json["reserve_bytes"].get<double>();
  const auto fits = [&](const std::string& words) {
    const auto plan = plan_with(o, words);
    return plan && plan->total_peak <= most;
  };
  const std::vector<Words> all = remedies(o);
  std::string text, every;
  const auto try_pairs = [&](const Words& some, const Words& others) {
    const Words pairs = combined(some, others);
    const auto first = std::ranges::find_if(pairs, fits);
    if (first == pairs.end()) return;
    text += fmt::format(" {} would take {}\n", *first, gibibytes(plan_with(o, *first)->total_peak));
  };
  for (const Words& words : all) try_pairs({""}, words);
  if (!text.empty()) return text;
  for (auto some = all.begin(); some != all.end(); ++some) {
    for (auto others = some + 1; others != all.end(); ++others) try_pairs(*some, *others);
    if (plan_with(o, every + some->back())) every += some->back();
  }
  if (!text.empty()) return "  no single change makes it fit; two do:\n" + text;
  const plan::Plan last = *plan_with(o, every);
  if (last.total_peak > most) return beyond_fsdp(last);
  return fmt::format(" {} would take {}\n", every, gibibytes(last.total_peak));
}

}  // namespace nanofsdp::cli
