#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/context.h"
#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief Ranks that are threads of one process: nothing to install, nothing to launch, and the
/// thread sanitizer sees all of it.
///
/// They meet, and read each other's memory (reading.h). Ranks that come with different calls all
/// get CommError::mismatch; a rank whose communicator is destroyed while others wait for it is
/// peer_lost; one that does not come in time is a timeout.
///
/// On a GPU, which all ranks share, the threads meet when they issue the call, and bring
/// an Event along: to the first meeting one that says when their operand is ready, to the second
/// when they have read the others'. The streams wait for these, the threads do not.
///
/// Memory is too fast to show what overlap hides, and so is TCP on one machine. A group may pretend
/// that a slower link lies between its ranks. The data is the same and the wait is no work: the
/// stream of the collective sleeps, and the cores are the computation's.

/// What a group pretends to be connected by. A group that is split from another has a link of its
/// own that is like it; a group of one needs none.
struct Link {
  double bytes_per_second = 0;               ///< into each rank; 0: as fast as memory
  std::chrono::duration<double> latency{0};  ///< of each collective

  /// How long a collective takes at least, from the moment when all its ranks have come.
  /// @param bytes the payload that this rank receives (traffic.h)
  std::chrono::duration<double> time_for(double bytes) const {
    const double seconds = bytes_per_second > 0 ? bytes / bytes_per_second : 0;
    return latency + std::chrono::duration<double>(seconds);
  }
};

/// How long threads wait for each other, and what they compute on.
struct LocalOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< for all ranks to come
  Link link{};                  ///< on the CPU only: elsewhere no thread sleeps beside the caller
  Device device = Device::cpu;  ///< of the Contexts that launch_threads makes
};

/// The communicators of ranks 0 .. world_size - 1. Each is for one thread (and its streams).
/// @throws Error unless world_size is at least 1
std::vector<std::unique_ptr<Communicator>> make_local_group(int world_size,
                                                            const LocalOptions& options = {});

/// A communicator for a program of one rank: rank 0 of 1. Collectives are copies, or nothing when
/// in place.
std::unique_ptr<Communicator> make_self();

/// Runs `body` once a rank, each on a thread of its own with its own Context, and joins them. A
/// rank that throws loses its communicators, so the others end with peer_lost; then the first error
/// that is not such a consequence is thrown here.
/// @param threads of the compute stream of each rank
/// @throws Error for a link between ranks on a GPU
void launch_threads(int world_size, int threads,
                    const std::function<void(Context&, std::unique_ptr<Communicator>)>& body,
                    const LocalOptions& options = {});

}  // namespace nanofsdp::comm
