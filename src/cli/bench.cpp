#include "cli/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/build_info.h"
#include "cli/command_line.h"
#include "cli/numbers.h"
#include "cli/option_kinds.h"

namespace nanofsdp::cli {
namespace {

double time_calls(const std::function<void()>& call) {
  constexpr double kBudget = 0.05;
  call();  // warms caches and sizes buffers
  int calls = 0;
  double seconds = 0;
  for (const double begin = now_seconds(); seconds < kBudget; ++calls) {
    call();
    seconds = now_seconds() - begin;
  }
  return seconds / calls;
}

}  // namespace

std::vector<std::vector<Sample>> race(const std::vector<Candidate>& candidates, int rounds) {
  std::vector<std::vector<Sample>> samples(candidates.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      samples[i].push_back(candidates[i].measure());
    }
  }
  for (auto& of_one : samples) std::ranges::sort(of_one, {}, &Sample::seconds);
  return samples;
}

Candidate calls(std::string name, double work, const char* unit, std::string limit,
                std::function<void()> call) {
  return {std::move(name), work, unit, std::move(limit),
          [call = std::move(call)] { return Sample{time_calls(call)}; }};
}

Rates print_race(const BenchOptions& options, const std::string& title,
                 std::vector<Candidate> candidates) {
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return (title + ", " + candidate.name).find(options.rows) == std::string::npos;
  });
  if (candidates.empty()) return {};
  fmt::print("\n{}\n", title);
  std::fflush(stdout);
  const auto samples = race(candidates, options.rounds);
  Rates rates, all;  // by name
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto& [name, work, unit, limit, measure] = candidates[i];
    const auto& [seconds, bytes] = samples[i][samples[i].size() / 2];
    const double rate = rates[name] = all[title + ", " + name] = work / seconds;
    fmt::print("  {:<36} {:>10.3f} ms ({:.3f} to {:.3f}) {:>9.2f} {}", name, 1e3 * seconds,
               1e3 * samples[i].front().seconds, 1e3 * samples[i].back().seconds, rate, unit);
    if (bytes > 0) fmt::print(", {} a rank", megabytes(bytes));
    if (rates.contains(limit)) fmt::print(", {:.0f} % of {}", 100 * rate / rates[limit], limit);
    fmt::print("\n");
  }
  return all;
}

int bench_command(const std::vector<std::string>& args) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  BenchOptions options;
  std::string only = "all";
  int threads = cores, ranks = 2;
  std::string machine;
  CommandLine line(
      "Usage: nanofsdp bench [--name=value ...]\n\nMeasures operators, collectives and "
      "whole training steps. Leave the machine alone meanwhile.");
  line.group("Options");
  line.choose("only", "operators, collectives, steps or all",
              {"all", "operators", "collectives", "steps"},
              [&only](const std::string& section) { only = section; });
  line.add("rows", "only rows whose heading, comma, name contain this", options.rows);
  line.add("rounds", "rounds over which medians are taken", options.rounds, {1, 1e6, "at least 1"});
  line.add("threads", "threads of the operators, beside 1", threads, {1, 1025, "1 to 1024"});
  line.add("ranks", "ranks of the collectives", ranks, {2, 1e6, "at least 2"});
  choose(line, "backend", "gloo (processes) or local (threads), of all ranks", options.backend,
         {{"gloo", comm::Backend::gloo}, {"local", comm::Backend::local}});
  add_transport(line, options.transport);
  line.add("machine",
           "instead: a file for what plan --machine asks of this computer, measured in a minute",
           machine);
  line.parse(args);
  if (!machine.empty()) {
    bench_machine(options, machine);
    return 0;
  }
  fmt::print("{}, {} cores; medians of {} rounds\n", build_info(), cores, options.rounds);
  // Processes first: they are forked, and that wants a process without threads.
  if (only == "all" || only == "steps") bench_steps(options);
  if (only == "all" || only == "collectives") bench_collectives(options, ranks);
  for (const int width : {1, threads}) {
    if (only == "all" || only == "operators") bench_operators(options, width);
    if (threads == 1) break;
  }
  return 0;
}

}  // namespace nanofsdp::cli
