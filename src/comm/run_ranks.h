#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/platform.h"
#include "comm/gloo.h"
#include "comm/nccl.h"

namespace nanofsdp::comm {

/// @file
/// @brief A program that becomes ranks, in one call from its main():
///
///     return comm::run_ranks({.ranks = 4}, [](Context& context, auto world) { ... });
///
/// This call starts the ranks and connects them. If torchrun, mpirun or Slurm has started the
/// program several times, this process joins the others.

/// How ranks are connected. With gloo they are processes, over Gloo or shared memory (gloo.h). With
/// nccl they are processes with a GPU each. With local they are threads of this process.
enum class Backend { gloo, nccl, local };

/// The name of a backend: "gloo", "nccl" or "local".
std::string name_of(Backend backend);

/// The default on CPUs: gloo, or local in a build without Gloo.
Backend default_backend();

/// How many ranks there are, and what they compute and communicate with.
struct RanksOptions {
  int ranks = 1;    ///< how many to start; if a launcher has started them, the launcher decides
  int threads = 0;  ///< how many threads a rank has; 0: see threads_per_rank()
  /// How many seconds a rank waits for a message. At the start and at the end it waits 5 times as
  /// long. Time in which the whole run is stopped does not count, and neither does time in which a
  /// rank works alone (Communicator::busy).
  int timeout = 60;
  Backend backend = Backend::gloo;             ///< how ranks are connected
  Transport transport = Transport::automatic;  ///< with gloo: what carries the bytes
  Reduction reduction = Reduction::ordered;    ///< with nccl: what adds
  Device device = Device::cpu;                 ///< the device on which each rank computes

  /// How long ranks wait until all have come. It is longer than for a message, because a user has
  /// to start them.
  std::chrono::seconds patience() const { return 5 * std::chrono::seconds(timeout); }
};

/// Returns `threads` if it was given. Otherwise cores are divided among the ranks of this machine,
/// and each has at least 1.
/// @param local_ranks the ranks on this machine; 0: unknown, so perhaps all
/// @param cores those that this process may use
int threads_per_rank(const RanksOptions& options, int local_ranks, int cores = count_cores());

/// The work of a rank. If there is one rank, it is this process, and its collectives are copies.
using RankBody = std::function<void(Context&, std::unique_ptr<Communicator>)>;

/// Runs `body` on each rank and waits for all ranks that were started here. It is made for main():
/// if a rank fails, one line on stderr names the rank that failed first, and says why. With the
/// backend local, only an error between ranks names its rank.
///
/// Call it before anything starts a thread, because it forks the ranks. What `body` writes to
/// memory stays in the rank's process, except with the backend local. A forked rank ends when
/// `body` returns, and what it has printed with stdio is written. Flush std::cout yourself if you
/// have called std::ios::sync_with_stdio(false). Memory that this process frees is kept for its
/// next allocations (keep_freed_memory(), base/platform.h).
/// @returns the exit code: 0, 1, 2 for a UsageError, 128 + n for signal n
int run_ranks(const RanksOptions& options, const RankBody& body);

/// Connects this process to the other ranks and runs `body`. For programs that start their ranks in
/// another way (launch/launch.h).
/// @throws UsageError if this build lacks the backend, or if its ranks are no processes
void run_rank(launch::Store& store, const RanksOptions& options, const RankBody& body);

}  // namespace nanofsdp::comm
