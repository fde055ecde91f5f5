#pragma once

#include <string>

#include "comm/peers.h"

namespace nanofsdp::comm {

/// @file
/// @brief How ranks of one machine come to share memory.

/// Finds the ranks of the run that are on this machine and shares memory with them: `memory` and
/// `sharers` of the run. The first of them makes a file in memory, the others open it, and all
/// close it when they have mapped it: then it has neither a name nor a number. From then on nobody
/// may trace this process (forbid_tracing() in base/platform.h). Collective over the run.
/// @returns why not all ranks of the run share memory; empty if they do
/// @throws CommError setup, if a rank does not come
std::string share_memory(Run& run);

}  // namespace nanofsdp::comm
