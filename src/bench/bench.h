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
#include "plan/machine.h"

namespace nanofsdp::bench {

/// @file
/// @brief The room `bench`: measures the speed of operators, collectives and training steps on this
/// computer. Candidates are measured in turn, round after round, so that they can be compared: if
/// the machine slows down for a while, it slows down all of them. A table shows medians over the
/// rounds, and the fraction of a limit that was measured in the same rounds.
///
/// Comes in: the numbers of rounds, ranks and threads, and a choice of rows (BenchOptions).
/// Goes out: tables on standard output, the rates in them, and the text of a machine file.

/// One measurement.
struct Sample {
  double seconds = 0;      ///< seconds for one unit of work
  std::int64_t bytes = 0;  ///< peak bytes of rank 0, as its ledger counts; 0: no rank was started
};

/// A function that is timed.
struct Candidate {
  std::string name;
  double work = 0;     ///< amount of work in one unit
  const char* unit{};  ///< unit of the rate, such as "GF/s"
  std::string limit;  ///< name of an earlier candidate whose fraction this one reaches; empty: none
  std::function<Sample()> measure;
};

/// Runs all candidates in turn, `rounds` times.
/// @returns the samples of each candidate, the fastest first
std::vector<std::vector<Sample>> race(const std::vector<Candidate>& candidates, int rounds);

/// Makes a candidate of a function. Its sample is the mean seconds of a call, over the calls that
/// fit into 0.05 seconds.
Candidate calls(std::string name, double work, const char* unit, std::string limit,
                std::function<void()> call);

struct BenchOptions {
  int rounds = 5;
  comm::Backend backend = comm::default_backend();         ///< the backend of ranks
  comm::Transport transport = comm::Transport::automatic;  ///< the transport of the backend gloo
  /// Text that "title, name" of a candidate must contain; other candidates are left out.
  std::string rows;
};

/// Rates of work for each "title, name".
using Rates = std::map<std::string, double>;

/// Measures the candidates and prints a table of them.
Rates print_race(const BenchOptions& options, const std::string& title,
                 std::vector<Candidate> candidates);

/// Each of these measures and prints one section of the command.
Rates bench_operators(const BenchOptions& options, int threads);
Rates bench_collectives(const BenchOptions& options, int ranks);
Rates bench_steps(const BenchOptions& options);

/// Measures this computer for a minute.
/// @param options of all rows
/// @returns the text of a file that `nanofsdp plan --machine=FILE` reads
std::string bench_machine(const BenchOptions& options);

/// A vector register. A loop uses ten of them, so two arithmetic units with a latency of four
/// cycles never wait.
using Pack [[gnu::vector_size(kRegisterBytes)]] = float;
using Packs = std::array<Pack, 10>;                             ///< the registers
constexpr std::int64_t kLanes = sizeof(Packs) / sizeof(float);  ///< floats in them
/// Makes the compiler believe that other code reads and writes the registers. So it must compute
/// the values, and must compute each register even if all began with the same value.
inline void touch(Packs& packs) { asm volatile("" : "+m"(packs)); }

/// Computes float32 products and sums in registers, on every thread of a CPU stream, for about a
/// millisecond. This is the most that the threads of a rank can compute.
/// @returns the floating-point operations of all threads together
double multiply_and_add(Stream& stream);

/// Measures the FLOP/s of a stream for about a fiftieth of a second: the fastest of a few tries. On
/// a GPU the rate is unknown, and the result is 0. Each try is shorter than the time for which the
/// system lets a thread run without a break. So if there are more ranks than cores, the result is
/// the rate of a rank whose threads have a core each.
double peak_flops(Stream& stream);

/// sum += x, which both have the same number of elements. This is the limit of a reduction. Like
/// all loops that measure a limit, it is compiled at -O3.
void add(std::span<float> sum, std::span<const float> x);

/// A rate that grows with a size: most / (1 + half / size).
struct Saturation {
  double most = 0, half = 0;
};
/// The curve through two measurements; half is at least 0.
Saturation saturation(double short_size, double short_rate, double long_size, double long_rate);

/// The first words of a machine file that was measured.
inline constexpr char kMeasured[] = "# Measured by nanofsdp bench --machine.";
/// The text of a machine file of a CPU. @param about the second line
std::string machine_text(const plan::Machine& machine, const std::string& about);

}  // namespace nanofsdp::bench
