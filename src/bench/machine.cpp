#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include <unistd.h>

#include "base/buffer.h"
#include "base/build_info.h"
#include "bench/bench.h"
#include "bench/numbers.h"
#include "bench/planned.h"
#include "ops/adamw.h"
#include "ops/elementwise.h"
#include "ops/gelu.h"
#include "ops/norm.h"

namespace nanofsdp {

// The text of data/machines/measured.txt, with braces for the numbers.
extern const std::string_view kMeasuredMachine;

}  // namespace nanofsdp

namespace nanofsdp::bench {
namespace {

using plan::Machine;

// A training step that is measured to fit a constant to it.
struct Fit {
  const char* name;
  train::TrainerOptions training;
  double Machine::*share;
  int steps;  // number of steps that are timed
};
const Fit kFits[] = {
    {"GPT 6 x 384, batch 6 x 256, 1 rank",
     {.batch_size = 6, .block_size = 256, .n_layer = 6, .n_head = 6, .n_embd = 384},
     &Machine::product_efficiency,
     6},
    {"GPT 4 x 128, batch 12 x 64", {}, &Machine::network_efficiency, 80},
    {"GPT 4 x 768, batch 4 x 64",
     {.batch_size = 4, .n_layer = 4, .n_head = 12, .n_embd = 768},
     &Machine::network_efficiency,
     8}};

constexpr int kRanks = 2;  // ranks of the fits that need several

double fetched(const Cost& cost) { return cost.read + cost.overwritten; }

// Measures the rates that no other section measures.
Rates bench_rest(const BenchOptions& options, int threads) {
  constexpr std::int64_t n = 1 << 24, few = 1 << 16;
  Context context(0, 1, threads);
  Stream& stream = *context.compute;
  const Buffer memory(context.ledger, MemoryClass::activations, 4 * n * sizeof(float));
  const Buffer number(context.ledger, MemoryClass::activations, sizeof(double));
  const Tensor all = memory.tensor({4 * n});
  const auto part = [&](std::int64_t i, std::int64_t size) { return all.slice(i * size, size); };
  const ops::Fill zero{part(1, n), 0};
  const ops::SquaredNorm norm{part(1, n), number.tensor({1}, DType::float64)};
  const ops::AdamW update{
      .param = part(0, n), .grad = part(1, n), .m = part(2, n), .v = part(3, n), .lr = 1e-9};
  const ops::GeluForward forward{part(0, few), part(1, few)};
  const ops::GeluBackward backward{part(0, few), part(1, few), part(2, few)};
  const double bytes = fetched(cost(zero)) + fetched(cost(norm)) + fetched(cost(update));
  return print_race(
      options, "this computer",
      {calls("optimizer", 1e-9 * bytes, "GB/s", "",
             [&] {
               ops::fill(stream, zero);
               ops::squared_norm(stream, norm);
               ops::adamw(stream, update);
             }),
       calls("gelu", 1e-9 * (cost(forward).flops + cost(backward).flops), "GF/s", "", [&] {
         ops::gelu(stream, forward);
         ops::gelu(stream, backward);
       })});
}

Crew crew_of(const Fit& fit, int cores) {
  const int ranks = fit.share == &Machine::network_efficiency ? kRanks : 1;
  return {"", ranks, std::max(1, cores / ranks), fsdp::ShardingStrategy::full_shard};
}

data::Dataset dataset_of(const Fit& fit) { return data::load_dataset({}, fit.training.block_size); }

// Measures the steps of the fits. Returns steps per second by the name of the fit.
Rates bench_fits(const BenchOptions& options, int cores) {
  std::vector<Candidate> steps;
  for (const Fit& fit : kFits) {
    steps.push_back({fit.name, 1, "steps/s", "", [&, cores] {
                       return time_steps(options, crew_of(fit, cores), fit.training,
                                         dataset_of(fit), fit.steps);
                     }});
  }
  return print_race(options, "steps to fit to", std::move(steps));
}

double planned_seconds(const Machine& machine, const Fit& fit) {
  const Crew crew = crew_of(fit, static_cast<int>(machine.cores));
  const auto model =
      planned_gpt(train::config_of(fit.training, dataset_of(fit).tokenizer().vocab_size()),
                  gpt::Recompute::none);
  const plan::Run run = planned_run(fit.training, {.ranks = crew.ranks}, crew.ranks - 1,
                                    crew.threads, Device::simulated_cpu, crew.ranks);
  return plan::plan(*model, run, &machine).time->seconds;
}

// The share at which the predicted step takes as long as the measured one.
double fitted(Machine machine, const Fit& fit, const Rates& steps) {
  const auto at = [&](double share) {
    machine.*fit.share = share;
    return planned_seconds(machine, fit);
  };
  return share_for(1 / steps.at(std::string("steps to fit to, ") + fit.name), at(1), at(0.5));
}

// The rate of two candidates that run one after the other, each with its own amount of work.
double both(const Rates& rates, const std::string& name, double forward, double backward) {
  const auto rate = [&](const char* way) { return rates.at(name + way); };
  return (forward + backward) / (forward / rate(", forward") + backward / rate(", backward"));
}

// Seconds for each byte that a rank sends: the mean of all-gather and reduce-scatter at this size.
double a_byte(const Rates& rates, const std::string& size) {
  double seconds = 0;
  for (const auto& [name, rate] : rates) {
    const bool counts = name.find(size) != name.npos && name.find("all_reduce") == name.npos;
    if (counts) seconds += 1e-9 / rate / 2;
  }
  return seconds;
}

Machine measured_machine(int cores, const Rates& sent, const Rates& rest, const Rates& rates) {
  const auto system = [](int name) { return static_cast<double>(::sysconf(name)); };
  const std::string arithmetic = fmt::format("arithmetic, {}, ", plural(cores, "thread"));
  const Saturation attention =
      saturation(64, both(rates, arithmetic + "4 x 128, attention", 2, 5), 1024,
                 both(rates, arithmetic + "124M, T = 1024, attention", 2, 5));
  constexpr double kMessage = 256 * 1024 / kRanks;
  const double large = a_byte(sent, " 40960 KB,"), small = a_byte(sent, " 256 KB,");
  Machine m{.kind = Machine::Kind::cpu};
  m.memory = system(_SC_PHYS_PAGES) * system(_SC_PAGESIZE);
  m.memory_bandwidth = 1e9 * rest.at("this computer, optimizer");
  m.cores = cores;
  m.products_float32 = 1e9 * rates.at(arithmetic + "6 x 384, peak") / m.cores;
  m.products_bfloat16 = m.products_float32;
  m.attention = 1e9 * attention.most / m.cores;
  m.attention_half_length = attention.half;
  m.flops = 1e9 * rest.at("this computer, gelu") / m.cores;
  m.node_ranks = 1024;
  m.node_bandwidth = m.network_bandwidth = kRanks / large;
  m.node_latency = m.network_latency = std::max(0.0, kMessage * (small - large));
  return m;
}

}  // namespace

Saturation saturation(double short_size, double short_rate, double long_size, double long_rate) {
  const double times = long_rate / short_rate;
  const double half = (times - 1) / (1 / short_size - times / long_size);
  return half > 0 ? Saturation{long_rate * (1 + half / long_size), half} : Saturation{long_rate, 0};
}

double share_for(double measured, double at_whole, double at_half) {
  const double moved = at_half - at_whole, more = std::max(0.0, measured - at_whole);
  return moved / (moved + more);
}

std::string machine_text(const Machine& m, const std::string& about) {
  std::string fits;
  for (const Fit& fit : kFits) fits += (fits.empty() ? "" : "; ") + std::string(fit.name);
  return fmt::format(fmt::runtime(kMeasuredMachine), about, m.memory, m.memory_bandwidth, m.cores,
                     m.products_bfloat16, m.products_float32, m.attention, m.attention_half_length,
                     m.flops, m.node_bandwidth, m.node_latency, m.network_bandwidth,
                     m.network_latency, fits, m.product_efficiency, m.network_efficiency);
}

std::string bench_machine(const BenchOptions& asked) {
  BenchOptions options = asked;
  options.rows.clear();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  // These fork processes, so they come first, while this process has no threads.
  const Rates steps = bench_fits(options, cores), sent = bench_collectives(options, kRanks);
  const Rates rest = bench_rest(options, cores), rates = bench_operators(options, cores);
  Machine m = measured_machine(cores, sent, rest, rates);
  m.product_efficiency = fitted(m, kFits[0], steps);
  m.network_efficiency = (fitted(m, kFits[1], steps) + fitted(m, kFits[2], steps)) / 2;
  const std::string about = fmt::format("{}, {}; ranks over {}", build_info(),
                                        plural(cores, "core"), comm::name_of(options.backend));
  return machine_text(m, about);
}

}  // namespace nanofsdp::bench
