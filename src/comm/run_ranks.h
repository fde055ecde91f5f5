#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/context.h"
#include "comm/communicator.h"
#include "comm/gloo.h"
#include "comm/nccl.h"
#include "launch/store.h"

namespace nanofsdp::comm {

/// @file
/// @brief A program that becomes ranks, in one call from its main():
///
///     return comm::run_ranks({.ranks = 4}, [](Context& context, auto world) { ... });
///
/// Here the ranks are started, and connected; or, if torchrun, mpirun or Slurm has started this
/// program several times, this process joins the others.

/// What connects the ranks: processes, over Gloo or shared memory (gloo.h), processes with a GPU
/// each over NCCL, or threads of this process.
enum class Backend { gloo, nccl, local };

/// "gloo", "nccl" or "local".
std::string name_of(Backend backend);

/// What connects ranks on CPUs by default: gloo, or local in a build without Gloo.
Backend default_backend();

/// How many ranks there are, and what they compute and communicate with.
struct RanksOptions {
  int ranks = 1;    ///< to start; where a launcher has started them, it says how many there are
  int threads = 0;  ///< of one rank; 0: see threads_per_rank()
  /// Seconds that a rank waits for a message, and 5 times that at the start. Time in which the
  /// whole run is stopped does not count, and time in which a rank works alone (Communicator::busy)
  /// does not count either.
  int timeout = 60;
  Backend backend = Backend::gloo;             ///< what connects the ranks
  Transport transport = Transport::automatic;  ///< of the backend gloo: what carries the bytes
  Reduction reduction = Reduction::ordered;    ///< of the backend nccl: what adds
  Device device = Device::cpu;                 ///< what each rank computes on

  /// For ranks to come: longer than for a message, because a user has to start them.
  std::chrono::seconds patience() const { return std::chrono::seconds(5 * timeout); }
};

/// `threads` if it was given, else this machine's cores / the ranks on it, at least 1.
/// @param local_ranks 0: unknown, perhaps all
int threads_per_rank(const RanksOptions& options, int local_ranks);

/// What a rank does. One rank alone is this process, and its collectives are copies.
using RankBody = std::function<void(Context&, std::unique_ptr<Communicator>)>;

/// Runs `body` once a rank and waits for all ranks that were started here. For main(): one line on
/// stderr names the rank that failed first, and why.
///
/// Call it before anything starts a thread: ranks are forked. What `body` writes to memory stays in
/// its process, but for the backend `local`. A forked rank ends where `body` does. What this
/// process frees, it keeps for its next allocations (keep_freed_memory(), base/platform.h).
/// @returns the exit code: 0, 1, 2 for a UsageError, 128 + n for signal n
int run_ranks(const RanksOptions& options, const RankBody& body);

/// The part of one process, for who launches or joins by other means (launch/launch.h): connects it
/// to the others, and runs `body`.
/// @throws UsageError if this build lacks the backend, or it has no processes
void run_rank(launch::Store& store, const RanksOptions& options, const RankBody& body);

}  // namespace nanofsdp::comm
