#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include <unistd.h>

#include "base/buffer.h"
#include "base/build_info.h"
#include "base/platform.h"
#include "bench/bench.h"
#include "bench/numbers.h"
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

constexpr int kRanks = 2;  // the ranks that measure collectives

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
  const double products = 1e9 * rates.at(arithmetic + "6 x 384, peak") / cores;
  const double latency = std::max(0.0, kMessage * (small - large));
  return {.kind = Machine::Kind::cpu,
          .memory = system(_SC_PHYS_PAGES) * system(_SC_PAGESIZE),
          .memory_bandwidth = 1e9 * rest.at("this computer, optimizer"),
          .cores = static_cast<double>(cores),
          .products_bfloat16 = products,
          .products_float32 = products,
          .attention = 1e9 * attention.most / cores,
          .attention_half_length = attention.half,
          .flops = 1e9 * rest.at("this computer, gelu") / cores,
          .node_ranks = 1024,
          .node_bandwidth = kRanks / large,
          .node_latency = latency,
          .network_bandwidth = kRanks / large,
          .network_latency = latency};
}

}  // namespace

Saturation saturation(double short_size, double short_rate, double long_size, double long_rate) {
  const double times = long_rate / short_rate;
  const double half = (times - 1) / (1 / short_size - times / long_size);
  return half > 0 ? Saturation{long_rate * (1 + half / long_size), half} : Saturation{long_rate, 0};
}

std::string machine_text(const Machine& m, const std::string& about) {
  return fmt::format(fmt::runtime(kMeasuredMachine), about, m.memory, m.memory_bandwidth, m.cores,
                     m.products_bfloat16, m.products_float32, m.attention, m.attention_half_length,
                     m.flops, m.node_bandwidth, m.node_latency, m.network_bandwidth,
                     m.network_latency);
}

std::string bench_machine(const BenchOptions& options) {
  const int cores = count_cores();
  const Rates sent = bench_collectives(options, kRanks);  // forks, so before there are threads
  const Rates rest = bench_rest(options, cores), rates = bench_operators(options, cores);
  const std::string about = fmt::format("{}, {}; ranks over {}", build_info(),
                                        plural(cores, "core"), comm::name_of(options.backend));
  return machine_text(measured_machine(cores, sent, rest, rates), about);
}

}  // namespace nanofsdp::bench
