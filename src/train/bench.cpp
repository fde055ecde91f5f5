#include "train/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/build_info.h"
#include "train/command_line.h"

namespace nanofsdp::train {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::vector<Timing> race(const std::vector<Candidate>& candidates, int rounds) {
  std::vector<std::vector<double>> seconds(candidates.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      seconds[i].push_back(candidates[i].measure());
    }
  }
  std::vector<Timing> timings;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    std::ranges::sort(seconds[i]);
    timings.push_back({candidates[i].name, seconds[i].front(), seconds[i][seconds[i].size() / 2],
                       seconds[i].back()});
  }
  return timings;
}

double time_calls(const std::function<void()>& work, double budget) {
  work();  // warms caches and sizes buffers
  int calls = 0;
  const Clock::time_point begin = Clock::now();
  do {
    work();
    ++calls;
  } while (since(begin) < budget);
  return since(begin) / calls;
}

int bench_command(const std::vector<std::string>& args) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string only = "all";
  int rounds = 5, threads = cores, ranks = 2;
  CommandLine line(
      "Usage: nanofsdp bench [--name=value ...]\n\nMeasures operators, collectives and "
      "whole training steps. Leave the machine alone meanwhile.");
  line.group("Options");
  line.choose("only", "operators, collectives, steps or all",
              {"all", "operators", "collectives", "steps"}, "",
              [&only](const std::string& section) { only = section; });
  line.add("rounds", "rounds over which medians are taken", rounds, {1, 1e6, "at least 1"});
  line.add("threads", "threads of the operators", threads, {1, 1025, "1 to 1024"});
  line.add("ranks", "ranks of the collectives", ranks, {2, 1e6, "at least 2"});
  line.parse(args);
  fmt::print("{}, {} cores; medians of {} rounds\n", build_info(), cores, rounds);
  // Processes first: they are forked, and that wants a process without threads.
  if (only == "all" || only == "steps") bench_steps(rounds);
  if (only == "all" || only == "collectives") bench_collectives(ranks, rounds);
  if (only == "all" || only == "operators") bench_operators(threads, rounds);
  return 0;
}

}  // namespace nanofsdp::train
