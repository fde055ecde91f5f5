#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/register.h"
#include "comm/run_ranks.h"
#include "data/dataset.h"
#include "plan/machine.h"
#include "train/options.h"

namespace nanofsdp::bench {

/// @file
/// @brief The room `bench`: what operators, collectives and steps reach on this computer. Speed is
/// measured so that it can be compared: every candidate in turn, round after round, so that a
/// machine that slows down slows all of them. A table has the medians over the rounds, and
/// fractions of limits that were measured in the same turns.
///
/// Comes in: how many rounds, ranks and threads, and which rows of a table (BenchOptions).
/// Goes out: tables on standard output, the rates in them, and the text of a machine file.

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
  comm::Backend backend = comm::default_backend();         ///< of ranks
  comm::Transport transport = comm::Transport::automatic;  ///< of the backend gloo
  std::string rows;  ///< what "title, name" of a candidate has to contain; the others are left out
};

/// Work in a second, by "title, name".
using Rates = std::map<std::string, double>;

/// Races the candidates and prints a table of them.
Rates print_race(const BenchOptions& options, const std::string& title,
                 std::vector<Candidate> candidates);

/// The sections of the command.
Rates bench_operators(const BenchOptions& options, int threads);
Rates bench_collectives(const BenchOptions& options, int ranks);
void bench_steps(const BenchOptions& options);

/// Measures this computer for a minute, whatever `options.rows` says.
/// @returns the text of a file that `nanofsdp plan --machine=FILE` reads
std::string bench_machine(const BenchOptions& options);

/// A vector register, and so many of them that two units of four cycles never wait.
using Pack [[gnu::vector_size(kRegisterBytes)]] = float;
using Packs = std::array<Pack, 10>;                             ///< the registers
constexpr std::int64_t kLanes = sizeof(Packs) / sizeof(float);  ///< floats in them
/// Makes the compiler believe that other code reads and writes these: it can neither leave out
/// what was computed nor compute packs only once because they began alike.
inline void touch(Packs& packs) { asm volatile("" : "+m"(packs)); }

/// What the threads of a rank can compute at most: multiplies and adds in float32 that never leave
/// the registers. Keeps every thread of a CPU stream at them, for about a millisecond.
/// @returns the floating-point operations done by all of them
double multiply_and_add(Stream& stream);

/// FLOP/s of the fastest of a few tries, in about a fiftieth of a second; 0: unknown, on a GPU.
/// Each try is shorter than what the system gives a thread at a stretch: where ranks are more than
/// cores, this is what the rank's threads could do if each had a core to itself.
double peak_flops(Stream& stream);

/// sum += x, of as many elements: what a reduction can reach. As all yardsticks, it is in the file
/// that is compiled at -O3.
void add(std::span<float> sum, std::span<const float> x);

/// A rate that grows with a size: most / (1 + half / size).
struct Saturation {
  double most = 0, half = 0;
};
/// The one that goes through both measurements; half is at least 0.
Saturation saturation(double short_size, double short_rate, double long_size, double long_rate);

/// The share of its peak at which something makes a step as long as measured.
/// @param at_whole, at_half what the step is predicted to take at a share of 1 and of 1/2
double share_for(double measured, double at_whole, double at_half);

/// A machine file of a CPU. @param about its first line
std::string machine_text(const plan::Machine& machine, const std::string& about);

/// Who makes a step.
struct Crew {
  const char* name;
  int ranks, threads;
  fsdp::ShardingStrategy strategy;
  bool apart = false;  ///< ranks that do not communicate: others are compared with them
  fsdp::LayoutKind layout = fsdp::LayoutKind::flat;  ///< of shards
};

/// Seconds of a step of training: the mean of `steps` after the first two.
Sample time_steps(const BenchOptions& options, const Crew& crew,
                  const train::TrainerOptions& training, const data::Dataset& dataset, int steps);

}  // namespace nanofsdp::bench
