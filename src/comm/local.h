#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/context.h"
#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief Ranks that are threads of one process. There is nothing to install or to launch, and the
/// thread sanitizer sees everything.
///
/// The threads meet, and read each other's memory (reading.h). If they make different calls, all
/// get CommError::mismatch. If the communicator of a rank is destroyed while others wait for it,
/// they get peer_lost. If a rank does not come in time, they get timeout.
///
/// If the ranks share a GPU, the threads meet twice when they issue a call, and bring an Event each
/// time. The first one passes when their operand is ready, the second one when they have read the
/// operands of the others. The streams wait for these events, but the threads do not.
///
/// Memory and TCP on one machine are too fast to show what overlap hides. So a group may pretend
/// that a slower link connects its ranks. The data is the same. The stream of the collective
/// sleeps, and leaves the cores to the computation. On a GPU the stream runs a kernel of one thread
/// that waits.

/// The link that a group pretends to have. A group that is split from another one has a link of its
/// own, with the same figures. A group of one rank needs no link.
struct Link {
  double bytes_per_second = 0;               ///< into each rank; 0: as fast as memory
  std::chrono::duration<double> latency{0};  ///< the latency of each collective

  /// How long a collective takes at least, after all its ranks have come.
  /// @param bytes the payload that this rank receives (base/traffic.h)
  std::chrono::duration<double> time_for(double bytes) const {
    const double seconds = bytes_per_second > 0 ? bytes / bytes_per_second : 0;
    return latency + std::chrono::duration<double>(seconds);
  }
};

/// How long threads wait for each other, and where they compute.
struct LocalOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< until all ranks have come
  Link link{};                  ///< the link that they pretend to have
  Device device = Device::cpu;  ///< the device of launch_threads' Contexts; they share one GPU
};

/// Makes the communicators of the ranks 0 to world_size - 1. Each is for one thread and its
/// streams.
/// @throws Error unless world_size is at least 1
std::vector<std::unique_ptr<Communicator>> make_local_group(int world_size,
                                                            const LocalOptions& options = {});

/// Makes the communicator of a program with one rank. Its collectives are copies. In place they do
/// nothing.
std::unique_ptr<Communicator> make_self();

/// Runs `body` on each rank, on a thread and with a Context of its own, and joins the threads. If a
/// rank throws, its communicators are destroyed, and the others end with peer_lost. Then this call
/// throws an error that is no such consequence. If several ranks have one, it is the lowest rank's.
/// @param threads how many threads the compute stream of each rank has
void launch_threads(int world_size, int threads,
                    const std::function<void(Context&, std::unique_ptr<Communicator>)>& body,
                    const LocalOptions& options = {});

}  // namespace nanofsdp::comm
