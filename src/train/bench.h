#pragma once

#include <functional>
#include <string>
#include <vector>

namespace nanofsdp::train {

/// @file
/// @brief Speed, measured so that it can be compared: every candidate in turn, round after round,
/// so that a machine that slows down slows all of them; medians over the rounds, and ratios.

/// A thing to be timed. `measure` returns seconds for one unit of work.
struct Candidate {
  std::string name;
  std::function<double()> measure;
  double work = 0;  ///< in that unit: floating-point operations, or elements
};

/// What came out, seconds.
struct Timing {
  std::string name;
  double min = 0;
  double median = 0;
  double max = 0;
};

/// Runs all candidates `rounds` times, interleaved.
std::vector<Timing> race(const std::vector<Candidate>& candidates, int rounds);

/// Seconds for one call of `work`, the mean over as many calls as fit into `budget` seconds.
double time_calls(const std::function<void()>& work, double budget);

/// `nanofsdp bench`: operators, collectives, whole steps. @returns the exit code
int bench_command(const std::vector<std::string>& args);

/// The sections of the command, each prints its table.
void bench_operators(int threads, int rounds);
void bench_collectives(int ranks, int rounds);
void bench_steps(int rounds);

}  // namespace nanofsdp::train
