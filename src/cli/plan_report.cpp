#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/planned.h"
#include "cli/option_kinds.h"

namespace nanofsdp::cli {
namespace {

using nlohmann::ordered_json;
using plan::Machine;
using plan::Recompute;

// More passes would need gigabytes of log.
constexpr std::int64_t kMostPasses = 20'000;

// Kinds of changes that people try, as words with a blank before each. Later ones of a kind save
// more memory, and cost more time. Some change nothing in a plan, or are refused beside it; then
// they do not make it fit. The last four kinds need other code or more GPUs.
std::vector<Words> changes_of(const PlanOptions& o) {
  const TrainOptions& t = o.training;
  Words groups, rows, ranks;
  for (int n = std::max(2, 2 * t.shard_size); n < t.ranks; n *= 2)
    groups.push_back(
        fmt::format("{} --shard_size={}", t.shard_size > 0 ? "" : " --strategy=hybrid_shard", n));
  for (auto n = t.batch_size / 2; n >= 1; n /= 2)
    rows.push_back(fmt::format(" --batch_size={}", n));
  // Ranks on CPUs share the memory of their machine, so there fewer ranks need less.
  for (int n = t.ranks; n >= 1 && n <= 64 * t.ranks; n = o.is_gpu() ? 2 * n : n / 2)
    ranks.push_back(ranks_typed(o, n));
  const std::string whole = t.shard_size > 0 ? " --shard_size=0" : "";
  std::vector<Words> all = {{""},
                            {" --recompute=none", " --recompute=selective", " --recompute=block"},
                            {" --zero=1" + whole, " --zero=2" + whole,
                             " --strategy=shard_grad_op" + whole, " --zero=3" + whole},
                            groups,
                            rows};
  for (const char* one :
       {" --strategy=hybrid_shard_optimizer", " --param_dtype=bfloat16",
        " --param_dtype=float8_e4m3", " --fused_loss=True", " --layout=flat", " --no_sync=False",
        " --unsharded_blocks=0", " --reshard_after_forward=0"})
    all.push_back({one});
  all.insert(all.end(), {{" --tensor=2"}, {" --tensor=4"}, {" --tensor=8"}, ranks});
  std::erase(all, Words());
  return all;
}

// Names the largest class of memory of a plan that is too large after all changes, and a way to
// make it smaller.
std::string beyond_fsdp(const ordered_json& plan, bool tensor_helps, bool gpu) {
  const auto most = std::max_element(plan["bytes"].begin(), plan["bytes"].end());
  const std::string help = tensor_helps                  ? "tensor parallelism:"
                           : !gpu                        ? "a smaller model, or more memory"
                           : most.key() == "activations" ? "shorter rows, or context parallelism"
                           : most.key().starts_with("unsharded")
                               ? "smaller units, or tensor parallelism"
                               : "more ranks, or offloading to the host";
  return fmt::format(
      "  FSDP alone cannot: after all changes it is {:.2f} GiB; the largest class, {}, has {:.2f} "
      "GiB; what helps is {}\n",
      gib(plan["peak_bytes"]), most.key(), gib(*most), help);
}

}  // namespace

plan::Plan plan_of(const PlanOptions& o, bool timed) {
  const TrainOptions& t = o.training;
  const std::unique_ptr<nn::Module> model = o.make_model();
  const Machine machine = o.machine.empty() ? Machine() : o.find_machine();
  const Machine* const on = o.machine.empty() ? nullptr : &machine;
  plan::Run run = bench::planned_run(
      t, t, 0, 1, o.is_gpu() ? Device::simulated_cuda : Device::simulated_cpu,
      t.transport == comm::Transport::gloo ? 1 : static_cast<int>(on ? on->node_ranks : t.ranks));
  run.options.wrap_policy = plan::is_block;
  run.tensor_size = o.practice.tensor;
  if (!o.is_ours() && t.strategy == fsdp::ShardingStrategy::hybrid_shard)
    run.across = static_cast<double>(size_of(t.precision.reduce_dtype)) / 4;
  const auto blocks = std::ssize(fsdp::wrap(*model, run.options.wrap_policy)) - 1;
  const auto passes = std::ssize(run.work.rows) * (blocks + 1);
  require(passes <= kMostPasses, "gradient_accumulation_steps",
          fmt::format("fewer for so many layers: at most {} passes of layers", kMostPasses),
          t.gradient_accumulation_steps);
  double made = 0, numel = 0;  // elements that all products make for a token; all parameters
  for (const nn::Parameter* p : model->named_parameters()) {
    made += p->shape.rank() == 2 ? static_cast<double>(p->shape[0]) : 0;
    numel += static_cast<double>(p->shape.numel());
  }
  const auto tokens = static_cast<double>(std::ranges::max(run.work.rows) * run.work.tokens);
  // With more elements, 64 bits might not be enough for the bytes.
  const bool fits =
      made * tokens <= 1e17 && 16 * numel * static_cast<double>(std::ssize(run.work.rows)) <= 9e18;
  require(fits, "batch_size", "fewer tokens, or gradient_accumulation_steps", t.batch_size);
  run.threads = o.is_gpu() ? 1 : comm::threads_per_rank(t, t.ranks);
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
  const double sharers = machine.sharers(o.ranks());
  json["machine"] = o.machine;
  json["memory_bytes"] = machine.memory / sharers;
  json["reserve_bytes"] = reserve;
  json["fits"] = static_cast<double>(plan.total_peak) + reserve <= machine.memory / sharers;
  if (!plan.time) return json;
  const double cores = o.is_gpu() ? 1 : std::min(1.0 * t.threads, machine.cores / sharers);
  const double peak = cores * (o.practice.dtype == DType::bfloat16 ? machine.products_bfloat16
                                                                   : machine.products_float32);
  const auto& [seconds, busy, exposed, sums, communication] = *plan.time;
  // MosaicML's steps take about 4 % more for each doubling of ranks beyond 128.
  const double doublings = o.is_gpu() ? std::max(0.0, std::log2(o.ranks() / 128.0)) : 0;
  const double in_all = seconds * (1 + 0.04 * doublings);
  json["seconds"] = seconds;
  json["straggler_seconds"] = in_all - seconds;
  if (o.parameters == 0) {
    const double tokens = static_cast<double>(t.tokens_of_step()) / in_all;
    json["tokens_per_s"] = tokens / o.ranks();
    PlanOptions plain = o;  // products that are computed again do not count
    plain.practice.recompute = Recompute::none;
    json["mfu"] = plan_of(plain, /*timed=*/false).products * tokens / t.ranks / peak;
    json["hfu"] = plan.products * tokens / t.ranks / peak;
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
  if (o.fit == 0 || o.machine.empty()) return words;
  const auto with = [&](auto n) { return fmt::format("{} --unsharded_blocks={}", words, n); };
  const auto seconds = [&](auto n) { return row_of(o, with(n)).value("seconds", 0.0); };
  // Each block takes memory, so the largest number that fits is found by halving.
  std::size_t fits = 0, most = fsdp::wrap(*o.make_model(), plan::is_block).size() - 1;
  while (fits < most) {
    const std::size_t half = (fits + most + 1) / 2;
    row_of(o, with(half), /*timed=*/false).value("fits", false) ? fits = half : most = half - 1;
  }
  return with(seconds(fits) <= 0.99 * seconds(0) ? fits : 0);
}

std::string what_would_fit(const PlanOptions& o) {
  std::vector<Words> all = changes_of(o);
  std::map<double, ordered_json> offers;  // the fastest first, one of each speed
  bool alone = false;                     // whether FSDP alone makes it fit
  const auto untimed = [&](const std::string& words) { return row_of(o, words, false); };
  Words& more = all.back();  // the most ranks come last; a plan may refuse them
  const auto widen = [&](const std::string& words) {
    while (more.size() > 1 && untimed(words + more.back()).contains("refused")) more.pop_back();
  };
  const auto fits = [&](const std::string& words) { return untimed(words).value("fits", false); };
  // The first change of a kind that fits behind these words costs least time.
  const auto try_behind = [&](const std::string& words, const Words& kind) {
    const auto more = std::ranges::find_if(kind, [&](const auto& w) { return fits(words + w); });
    if (more == kind.end()) return;
    const ordered_json row = row_of(o, words + *more);
    offers.emplace(-row.value("tokens_per_s", 1 / row["seconds"].get<double>()), row);
    alone |= (words + *more).find("--tensor") == std::string::npos;
  };
  const auto try_both = [&](const Words& first, const Words& other) {
    if (!fits(first.back() + other.back())) return;
    for (const std::string& words : first) try_behind(words, other);
  };
  const std::size_t n = all.size();
  for (std::size_t j = 1; j < n; ++j) try_both(all[0], all[j]);
  std::string text, every;
  if (!alone) {
    text = "  no single change of FSDP makes it fit; these do:\n";
    widen("");
    double least = HUGE_VAL;
    for (std::size_t i = 0; i + 4 < n; ++i) {
      const double peak = untimed(every + all[i].back() + more.back()).value("peak_bytes", least);
      if (peak < least) least = peak, every += all[i].back();
    }
    for (std::size_t j = 2; j < n; ++j) {
      if (!fits(every + (j + 4 < n ? "" : all[j].back()))) continue;  // so no pair fits
      for (std::size_t i = 1; i < j; ++i) try_both(all[i], all[j]);
    }
  }
  for (const char* tensor : {"", " --tensor=2", " --tensor=4", " --tensor=8"})
    if (offers.empty() || (!alone && *tensor == '\0')) try_behind(every + tensor, all.back());
  if (!alone) {
    widen(every);
    text = beyond_fsdp(untimed(every + more.back()), !offers.empty(), o.is_gpu());
  }
  for (int left = 6; const auto& [speed, row] : offers)
    if (left-- > 0)
      text += fmt::format(" {} would take {:.2f} GiB, {:.4g} {}\n", row["typed"].get<std::string>(),
                          gib(row["peak_bytes"]), -speed,
                          o.parameters > 0 ? "steps/s" : "tokens/s a rank");
  return text;
}

}  // namespace nanofsdp::cli
