#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "bench/planned.h"
#include "cli/option_kinds.h"

namespace nanofsdp::cli {
namespace {

using nlohmann::ordered_json;
using plan::Machine;
using plan::Recompute;

// More passes would need gigabytes of log.
constexpr std::int64_t kMostPasses = 20'000;
// With more elements, 64 bits might not be enough for the bytes.
constexpr double kMostElements = 1e17;

std::string gibibytes(double bytes) { return fmt::format("{:.2f} GiB", bytes / (1 << 30)); }

// Kinds of changes that people try first, as words with a blank before each. Later ones of a kind
// save more.
std::vector<Words> remedies(const PlanOptions& o) {
  const TrainOptions& t = o.training;
  Words recompute = {" --recompute=selective", " --recompute=block"}, rows, ranks, groups, whole;
  recompute.erase(recompute.begin(), recompute.begin() + static_cast<int>(o.practice.recompute));
  const auto is_zero = [](const std::string& word) { return word.starts_with("--zero"); };
  const bool zero = std::ranges::any_of(o.arguments, is_zero), alone = t.ranks == 1;
  const std::string full = zero ? " --zero=3" : " --strategy=full_shard";
  for (auto n = t.batch_size / 2; n >= 1; n /= 2)
    rows.push_back(fmt::format(" --batch_size={}", n));
  for (int n = 2 * t.ranks; n <= 64 * t.ranks; n *= 2)
    ranks.push_back(ranks_typed(o, n) + (alone ? full : ""));
  for (int n = 2 * t.shard_size; 0 < n && n < t.ranks; n *= 2)
    groups.push_back(fmt::format(" --shard_size={}", n));
  if (!alone && t.strategy != fsdp::ShardingStrategy::full_shard)
    whole.push_back(full + (t.shard_size > 0 ? " --shard_size=0" : ""));
  const Words sync = t.no_sync ? Words{" --no_sync=False"} : Words();
  const Words again = t.unsharded_blocks > 0 ? Words{" --unsharded_blocks=0"} : Words();
  std::vector<Words> all = {again, recompute, sync, groups, whole, rows, ranks};
  std::erase(all, Words());
  return all;
}

// Names the largest part of the memory of a plan that is too large after all changes, and a way to
// make that part smaller.
std::string beyond_fsdp(const ordered_json& plan) {
  const ordered_json& of = plan["bytes"];
  const double units =
      of["unsharded parameters"].get<double>() + of["unsharded gradients"].get<double>();
  const double activations = of["activations"];
  const double shards = plan["peak_bytes"].get<double>() - units - activations;
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
  const Machine machine = o.machine.empty() ? Machine() : o.find_machine();
  const Machine* const on = o.machine.empty() ? nullptr : &machine;
  plan::Run run = bench::planned_run(
      t, t, t.ranks - 1, 1, o.is_gpu() ? Device::simulated_cuda : Device::simulated_cpu,
      t.transport == comm::Transport::gloo ? 1 : static_cast<int>(on ? on->node_ranks : t.ranks));
  run.options.wrap_policy = plan::is_block;
  run.tensor_size = o.practice.tensor;
  if (!o.is_ours() && t.strategy == fsdp::ShardingStrategy::hybrid_shard)
    run.across = static_cast<double>(size_of(t.precision.reduce_dtype)) / 4;
  const auto blocks = std::ssize(fsdp::wrap(*model, run.options.wrap_policy)) - 1;
  run.options.forward_prefetch = static_cast<int>(
      // The same limit as in a training.
      std::min<std::int64_t>(run.options.forward_prefetch, blocks));
  const auto passes = std::ssize(run.work.rows) * (blocks + 1);
  require(passes <= kMostPasses, "gradient_accumulation_steps",
          fmt::format("fewer for so many layers: at most {} passes of layers", kMostPasses),
          t.gradient_accumulation_steps);
  double made = 0;  // elements that all products make for a token
  for (const nn::Parameter* p : model->named_parameters())
    made += p->shape.rank() == 2 ? static_cast<double>(p->shape[0]) : 0;
  const auto tokens = static_cast<double>(std::ranges::max(run.work.rows) * run.work.tokens);
  require(made * tokens <= kMostElements, "batch_size", "fewer tokens, for so large a model",
          t.batch_size);
  run.threads = comm::threads_per_rank(t, t.ranks);
  return plan::plan(*model, run, timed ? on : nullptr);
}

ordered_json json_of(const PlanOptions& o, const plan::Plan& plan) {
  const TrainOptions& t = o.training;
  ordered_json json = {{"model", o.parameters > 0 ? "parameters" : o.model},
                       {"parameters", plan.numel()},
                       {"ranks", o.ranks()},
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
  if (o.machine.empty()) return json;
  const Machine machine = o.find_machine();
  const double reserve = o.reserve * (1 << 30);
  const double memory = o.is_gpu() ? machine.memory : machine.memory / o.ranks();
  json["machine"] = o.machine;
  json["memory_bytes"] = memory;
  json["reserve_bytes"] = reserve;
  json["fits"] = static_cast<double>(plan.total_peak) + reserve <= memory;
  if (!plan.time) return json;
  const double cores = o.is_gpu() ? 1 : std::min(1.0 * t.threads, machine.cores / o.ranks());
  const double peak = cores * (o.practice.dtype == DType::bfloat16 ? machine.products_bfloat16
                                                                   : machine.products_float32);
  const auto& [seconds, busy, exposed, sums, communication] = *plan.time;
  // MosaicML's steps take about 4 % more for each doubling of ranks beyond 128.
  const double doublings = o.is_gpu() ? std::max(0.0, std::log2(o.ranks() / 128.0)) : 0;
  const double in_all = seconds * (1 + 0.04 * doublings);
  json["seconds"] = seconds;
  json["straggler_seconds"] = in_all - seconds;
  if (o.parameters == 0) {
    json["tokens_per_s"] = static_cast<double>(t.tokens_of_step()) / o.ranks() / in_all;
    PlanOptions plain = o;  // products that are computed again do not count
    plain.practice.recompute = Recompute::none;
    json["mfu"] = plan_of(plain, /*timed=*/false).products / in_all / peak;
    json["hfu"] = plan.products / in_all / peak;
  }
  json["communication_seconds"] = communication;
  json["exposed_seconds"] = {{"all_gathers", exposed[1]}, {"reductions", exposed[2]}};
  if (o.practice.tensor > 1) json["exposed_seconds"]["sums"] = sums;
  return json;
}

ordered_json row_of(const PlanOptions& o, const std::string& words, bool timed) {
  ordered_json row = {{"typed", words}};
  try {
    const PlanOptions typed = typed_behind(o, words);
    row.update(json_of(typed, plan_of(typed, timed)));
  } catch (const UsageError& error) {
    row["refused"] = error.what();
  }
  return row;
}

std::string fitted(const PlanOptions& o, const std::string& words) {
  if (o.fit == 0) return words;
  const auto with = [&](auto n) { return fmt::format("{} --unsharded_blocks={}", words, n); };
  const auto seconds = [&](auto n) { return row_of(o, with(n)).value("seconds", 0.0); };
  // Each block takes memory, so the largest number that fits is found by halving.
  std::size_t fits = 0, most = fsdp::wrap(*o.make_model(), plan::is_block).size() - 1;
  while (fits < most) {
    const std::size_t half = (fits + most + 1) / 2;
    row_of(o, with(half), /*timed=*/false).value("fits", false) ? fits = half : most = half - 1;
  }
  return with(seconds(fits) < seconds(0) ? fits : 0);
}

std::string what_would_fit(const PlanOptions& o) {
  const std::vector<Words> all = remedies(o);
  std::vector<ordered_json> offers;
  ordered_json last;
  // The first change of a kind that fits costs least time.
  const auto try_each = [&](const Words& kind) {
    for (const std::string& words : kind) {
      last = row_of(o, words, /*timed=*/false);
      if (last.value("fits", false)) return offers.push_back(row_of(o, words));
    }
  };
  for (const Words& kind : all) try_each(kind);
  std::string text, every;
  for (std::size_t i = 0, n = offers.empty() ? all.size() : 0; i < n; ++i) {
    text = "  no single change makes it fit; two do:\n";
    for (std::size_t j = i + 1; j < n; ++j) try_each(combined(all[i], all[j]));
    if (!row_of(o, every + all[i].back(), false).contains("refused")) every += all[i].back();
  }
  if (offers.empty()) text.clear(), try_each({every});
  if (offers.empty()) return beyond_fsdp(last);
  std::stable_sort(offers.begin(), offers.end(), [](const auto& a, const auto& b) {
    return a.value("tokens_per_s", 0.0) > b.value("tokens_per_s", 0.0);
  });
  for (const ordered_json& row : offers)
    text += fmt::format(" {} would take {}\n", row["typed"].get<std::string>(),
                        gibibytes(row["peak_bytes"]));
  return text;
}

}  // namespace nanofsdp::cli
