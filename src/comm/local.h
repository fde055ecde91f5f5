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
/// A collective is two meetings. Ranks lay their operands open and wait for each other; each reads
/// from the others what it needs; ranks wait again, so that nobody changes an operand that another
/// still reads. Ranks that lay open different calls all get CommError::mismatch; a rank whose
/// communicator is destroyed while others wait for it is peer_lost; one that does not come in time
/// is a timeout.

/// The communicators of ranks 0 .. world_size - 1. Each is for one thread (and its streams).
std::vector<std::unique_ptr<Communicator>> make_local_group(
    int world_size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// Runs `body` once a rank, each on a thread of its own with its own Context, and joins them. A
/// rank that throws loses its communicators, so the others end with peer_lost; then the first error
/// that is not such a consequence is thrown here.
/// @param threads of the compute stream of each rank
void launch_threads(int world_size, int threads,
                    const std::function<void(Context&, std::unique_ptr<Communicator>)>& body,
                    std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace nanofsdp::comm
