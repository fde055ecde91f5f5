#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nanofsdp::cli {

/// @file
/// @brief Speed, measured so that it can be compared: every candidate in turn, round after round,
/// so that a machine that slows down slows all of them; medians over the rounds, and fractions of
/// limits that were measured in the same turns.

/// One measurement.
struct Sample {
  double seconds = 0;      ///< for one unit of work
  std::int64_t bytes = 0;  ///< of rank 0 at its peak, as its ledger counts; 0: no rank was started
};

/// A thing to be timed.
struct Candidate {
  std::string name;
  double work = 0;     ///< of one unit
  const char* unit{};  ///< of work in a second
  std::string limit;   ///< the candidate before it that this one is a fraction of; empty: none
  std::function<Sample()> measure;
};

/// Runs all candidates `rounds` times, interleaved.
/// @returns the samples of each, the fastest first
std::vector<std::vector<Sample>> race(const std::vector<Candidate>& candidates, int rounds);

/// A candidate that is a function: seconds for one call, the mean over as many calls as fit into
/// 0.05 seconds.
Candidate calls(std::string name, double work, const char* unit, std::string limit,
                std::function<void()> call);

struct BenchOptions {
  int rounds = 5;
  std::string rows;  ///< what "title, name" of a candidate has to contain; the others are left out
};

/// Races the candidates and prints a table of them.
void print_race(const BenchOptions& options, const std::string& title,
                std::vector<Candidate> candidates);

/// `nanofsdp bench`: operators, collectives, whole steps. @returns the exit code
int bench_command(const std::vector<std::string>& args);

/// The sections of the command.
void bench_operators(const BenchOptions& options, int threads);
void bench_collectives(const BenchOptions& options, int ranks);
void bench_steps(const BenchOptions& options);

}  // namespace nanofsdp::cli
