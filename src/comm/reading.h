#pragma once

#include <cstdint>
#include <memory>

#include "comm/group.h"
#include "comm/peers.h"

namespace nanofsdp::comm {

/// @file
/// @brief Collectives of ranks that can read each other's memory: threads (local.h), or processes
/// that share memory (sharing.h).
///
/// A collective consists of two meetings. At the first one, each rank says where its operand lies,
/// and waits for the others. Then each rank reads the data that it needs from the others. At the
/// second one the ranks wait again, so that no rank changes an operand that another rank still
/// reads.
///
/// So each byte that a rank needs is moved once, from its owner's memory to this rank's memory. No
/// transport can do with less, because the data has to arrive. An all-gather is one copy of the
/// others' chunks. A reduce-scatter is one pass that reads a chunk of every rank and writes their
/// sum. A connection needs at least two more copies, into the kernel and out of it. The only cost
/// beside the copy is that of the two meetings.
///
/// Each rank of a group has a slot, which is memory that the others can read. The rank writes there
/// which call it makes and where its operand lies. The slot of the group's first rank also has a
/// counter of how often ranks have come to the first or the second meeting of a call. A rank that
/// comes adds one, and sleeps until the counter is high enough. One bit of the counter says that
/// the group has failed. After that, a rank that comes to a first meeting is not counted, so a
/// meeting of threads succeeds for all ranks or for none. Threads that have met are still counted
/// at the second meeting, so that no rank frees an operand that another rank reads. A slot is given
/// back when all ranks of its group have gone.
///
/// Processes copy an operand of up to 64 KB to the slot. Then there is no second meeting: the slot
/// has room for two calls, and a rank comes to its next call only when it has read everything of
/// the last call. A large operand that does not lie in shared memory is copied there first.

/// Takes a slot for a new group. It also gives back the slots that no rank reads any more: peers
/// may still read a slot after its rank has left the group.
/// @returns the place of the slot: its offset in the rank's part of the shared memory, or its
///   address
std::uint64_t take_slot(RunState& run);

/// Makes the group of the ranks with this color. Collective over the group.
GroupSpec split(Group& group, const Peers& peers, int color);

/// Makes a rank's end of a group whose ranks can read each other's memory.
std::shared_ptr<Group> make_reading_group(std::shared_ptr<RunState> run, const GroupSpec& spec);

}  // namespace nanofsdp::comm
