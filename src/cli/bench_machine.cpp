#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include <unistd.h>

#include "base/buffer.h"
#include "base/build_info.h"
#include "base/check.h"
#include "cli/bench.h"
#include "cli/numbers.h"
#include "cli/planned.h"
#include "ops/adamw.h"
#include "ops/elementwise.h"
#include "ops/gelu.h"
#include "ops/norm.h"

namespace nanofsdp::cli {
namespace {

using plan::Machine;

// A number of the file, and how it was measured.
struct Line {
  const char* name;
  double Machine::*value;
  const char* how;
};
constexpr Line kMeasured[] = {
    {"memory", &Machine::memory, "bytes; what the system says"},
    {"memory_bandwidth", &Machine::memory_bandwidth,
     "bytes/s fetched; zeroing, norm and AdamW of 16,777,216 parameters, all threads"},
    {"cores", &Machine::cores, "what the system says; products, attention, flops: of one core"},
    {"products_bfloat16", &Machine::products_bfloat16, "as float32, which a CPU widens them to"},
    {"products_float32", &Machine::products_float32,
     "FLOP/s; multiplies and adds in registers, all threads"},
    {"product_half_width", &Machine::product_half_width, "not measured: models are wide enough"},
    {"attention", &Machine::attention, "FLOP/s of long rows; see the next"},
    {"attention_half_length", &Machine::attention_half_length,
     "attention over rows of 64 beside those of 1024 tokens"},
    {"flops", &Machine::flops, "FLOP/s; GELU and its backward in the cache"},
    {"kernel_time", &Machine::kernel_time, "s; an operator of one element"},
    {"launch_time", &Machine::launch_time, "s; handing work to another thread"},
    {"node_ranks", &Machine::node_ranks, "all ranks are on this computer"},
    {"node_bandwidth", &Machine::node_bandwidth,
     "bytes/s of all ranks; all-gather and reduce-scatter of 40 MB"},
    {"node_latency", &Machine::node_latency, "s for each other rank; the same of 256 KB"},
    {"network_bandwidth", &Machine::network_bandwidth, "as inside: no other computer was measured"},
    {"network_latency", &Machine::network_latency, "as inside"},
    {"network_oversubscription", &Machine::network_oversubscription, "as inside"}};
constexpr Line kFitted[] = {
    {"product_efficiency", &Machine::product_efficiency,
     "share of the peak of float32, to the first"},
    {"memory_efficiency", &Machine::memory_efficiency, "not fitted: measured in use"},
    {"network_efficiency", &Machine::network_efficiency, "to the others, their mean"},
    {"overlap_slowdown", &Machine::overlap_slowdown, "not fitted: streams share the cores"}};

// A step that a constant is fitted to.
struct Fit {
  const char* name;
  train::TrainerOptions training;
  double Machine::*share;
  int steps;  // that are timed
};
const Fit kFits[] = {
    {"GPT 6 x 384, batch 6 x 256, 1 rank",
     {.batch_size = 6, .block_size = 256, .n_layer = 6, .n_head = 6, .n_embd = 384},
     &Machine::product_efficiency,
     6},
    {"GPT 4 x 128, batch 12 x 64, full_shard", {}, &Machine::network_efficiency, 80},
    {"GPT 4 x 768, batch 4 x 64, full_shard",
     {.batch_size = 4, .n_layer = 4, .n_head = 12, .n_embd = 768},
     &Machine::network_efficiency,
     8}};

double fetched(const Cost& cost) { return cost.read + cost.overwritten; }

// What no other section measures.
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
  return print_race(options, "this computer",
                    {calls("optimizer", 1e-9 * bytes, "GB/s", "",
                           [&] {
                             ops::fill(stream, zero);
                             ops::squared_norm(stream, norm);
                             ops::adamw(stream, update);
                           }),
                     calls("gelu", 1e-9 * (cost(forward).flops + cost(backward).flops), "GF/s", "",
                           [&] {
                             ops::gelu(stream, forward);
                             ops::gelu(stream, backward);
                           }),
                     calls("operator", 1e-6, "M/s", "",
                           [&] {
                             ops::fill(stream, {part(0, 1), 0});
                           }),
                     calls("hand-over", 1e-6, "M/s", "", [&] { context.gather->enqueue([] {}); })});
}

double planned_seconds(const Machine& machine, const Fit& fit, const Crew& crew,
                       const data::Dataset& dataset) {
  TrainOptions o;
  static_cast<train::TrainerOptions&>(o) = fit.training;
  o.ranks = crew.ranks;
  o.strategy = crew.strategy;
  const auto model =
      planned_gpt(train::config_of(o, dataset.tokenizer().vocab_size()), plan::Recompute::none);
  const plan::Run run = planned_run(o, crew.ranks - 1, crew.threads, Device::simulated_cpu);
  return plan::plan(*model, run, &machine).time->seconds;
}

// Work in a second of two candidates one after the other, each of its own amount.
double both(const Rates& rates, const std::string& name, double forward, double backward) {
  const auto rate = [&](const char* way) { return rates.at(name + way); };
  return (forward + backward) / (forward / rate(", forward") + backward / rate(", backward"));
}

// Seconds that an all-gather or a reduce-scatter of so many KB takes for each byte that a rank
// sends: their mean.
double a_byte(const Rates& rates, const std::string& size) {
  double seconds = 0;
  for (const auto& [name, rate] : rates) {
    const bool counts = name.find(size) != name.npos && name.find("all_reduce") == name.npos;
    if (counts) seconds += 1e-9 / rate / 2;
  }
  return seconds;
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

std::string machine_text(const Machine& machine, const std::string& about) {
  std::string text = fmt::format(
      "# {}\n# Measured by nanofsdp bench --machine. Bytes, seconds, FLOP/s; what each name means "
      "is in\n# src/plan/machine.h.\n\nkind = cpu\n",
      about);
  const auto add = [&](const Line& line) {
    text += fmt::format("{} = {:.4g}  # {}\n", line.name, machine.*line.value, line.how);
  };
  std::ranges::for_each(kMeasured, add);
  text += "\n[fitted] to the steps of";
  for (const Fit& fit : kFits) text += fmt::format("{} {}", &fit == kFits ? "" : ";", fit.name);
  text += '\n';
  std::ranges::for_each(kFitted, add);
  return text;
}

void bench_machine(const BenchOptions& asked, int ranks, const std::string& path) {
  const auto write = [&](std::ios::openmode mode, const std::string& text) {
    std::ofstream file(path, mode);
    file << text << std::flush;
    if (file) return;
    throw UsageError(
        {.what = "--machine", .expected = "a file that can be written", .got = "'" + path + "'"});
  };
  write(std::ios::app, "");  // leaves what is there until the end
  BenchOptions options = asked;
  options.rows.clear();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto dataset_of = [](const Fit& fit) {
    return data::load_dataset({}, fit.training.block_size);
  };
  const auto crew_of = [&](const Fit& fit) {
    const int size = fit.share == &Machine::network_efficiency ? ranks : 1;
    return Crew{"", size, std::max(1, cores / size), fsdp::ShardingStrategy::full_shard};
  };
  // Processes first.
  std::vector<Candidate> steps;
  for (const Fit& fit : kFits) {
    steps.push_back({fit.name, 1, "steps/s", "", [&] {
                       return time_steps(options, crew_of(fit), fit.training, dataset_of(fit),
                                         fit.steps);
                     }});
  }
  const std::string of_fit = "steps to fit to";
  const Rates measured = print_race(options, of_fit, std::move(steps));
  const Rates sent = bench_collectives(options, ranks);
  const Rates rest = bench_rest(options, cores), rates = bench_operators(options, cores);

  Machine m{.kind = Machine::Kind::cpu};
  const auto system = [](int name) { return static_cast<double>(::sysconf(name)); };
  m.memory = system(_SC_PHYS_PAGES) * system(_SC_PAGESIZE);
  m.cores = cores;
  m.memory_bandwidth = 1e9 * rest.at("this computer, optimizer");
  const std::string arithmetic = fmt::format("arithmetic, {}, ", plural(cores, "thread"));
  m.products_float32 = 1e9 * rates.at(arithmetic + "6 x 384, peak") / cores;
  m.products_bfloat16 = m.products_float32;
  const Saturation attention =
      saturation(64, both(rates, arithmetic + "4 x 128, attention", 2, 5), 1024,
                 both(rates, arithmetic + "124M, T = 1024, attention", 2, 5));
  m.attention = 1e9 * attention.most / cores;
  m.attention_half_length = attention.half;
  m.flops = 1e9 * rest.at("this computer, gelu") / cores;
  m.kernel_time = 1e-6 / rest.at("this computer, operator");
  m.launch_time = 1e-6 / rest.at("this computer, hand-over");
  m.node_ranks = 1024;
  const double sent_bytes = (ranks - 1) * 256.0 * 1024 / ranks, peers = ranks - 1;
  m.node_bandwidth = m.network_bandwidth = ranks / a_byte(sent, " 40960 KB");
  m.node_latency = m.network_latency =
      std::max(0.0, sent_bytes * (a_byte(sent, " 256 KB") - a_byte(sent, " 40960 KB")) / peers);
  double shares[std::size(kFits)];
  for (std::size_t i = 0; i < std::size(kFits); ++i) {
    const auto at = [&](double share) {
      m.*kFits[i].share = share;
      return planned_seconds(m, kFits[i], crew_of(kFits[i]), dataset_of(kFits[i]));
    };
    shares[i] =
        share_for(1 / measured.at(fmt::format("{}, {}", of_fit, kFits[i].name)), at(1), at(0.5));
    if (i == 0) m.product_efficiency = shares[0];
  }
  m.network_efficiency = (shares[1] + shares[2]) / 2;
  write(std::ios::trunc,
        machine_text(m, fmt::format("{}, {}; ranks over {}", build_info(), plural(cores, "core"),
                                    comm::name_of(options.backend))));
}

}  // namespace nanofsdp::cli
