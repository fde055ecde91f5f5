#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/group.h"

namespace nanofsdp::comm {

/// @file
/// @brief A group of one: collectives are copies, or nothing when in place.

/// A communicator for a program of one rank: rank 0 of 1.
std::unique_ptr<Communicator> make_self();

/// The same for backends whose split leaves a rank alone.
std::shared_ptr<Group> make_self_group();

}  // namespace nanofsdp::comm
