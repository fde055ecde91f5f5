#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/numbers.h"

namespace nanofsdp::bench {

std::vector<std::vector<Sample>> race(const std::vector<Candidate>& candidates, int rounds) {
  std::vector<std::vector<Sample>> samples(candidates.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < candidates.size(); ++i)
      samples[i].push_back(candidates[i].measure());
  for (auto& of_one : samples) std::ranges::sort(of_one, {}, &Sample::seconds);
  return samples;
}

Candidate calls(std::string name, double work, const char* unit, std::string limit,
                std::function<void()> call) {
  const auto measure = [call = std::move(call)] {
    call();  // this call fills caches and sizes buffers
    int calls = 0;
    double seconds = 0;
    for (const double begin = now_seconds(); seconds < 0.05; ++calls) {
      call();
      seconds = now_seconds() - begin;
    }
    return Sample{seconds / calls};
  };
  return {std::move(name), work, unit, std::move(limit), measure};
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
  Rates rates;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto& [name, work, unit, limit, measure] = candidates[i];
    const auto& [slow, bytes] = samples[i][samples[i].size() / 2];
    // The median of an even number lies between the two in the middle.
    const double seconds = (samples[i][(samples[i].size() - 1) / 2].seconds + slow) / 2;
    const double rate = rates[title + ", " + name] = work / seconds;
    fmt::print("  {:<36} {:>10.3f} ms ({:.3f} to {:.3f}) {:>9.2f} {}", name, 1e3 * seconds,
               1e3 * samples[i].front().seconds, 1e3 * samples[i].back().seconds, rate, unit);
    if (bytes > 0) fmt::print(", {} a rank", megabytes(bytes));
    const auto most = rates.find(title + ", " + limit);
    if (most != rates.end()) fmt::print(", {:.0f} % of {}", 100 * rate / most->second, limit);
    fmt::print("\n");
  }
  return rates;
}

}  // namespace nanofsdp::bench
