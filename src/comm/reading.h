#pragma once

#include <cstdint>
#include <memory>

#include "comm/group.h"
#include "comm/peers.h"

namespace nanofsdp::comm {

/// @file
/// @brief Collectives of ranks that can read each other's memory: threads (local.h), or processes
/// that share some (sharing.h).
///
/// A collective is two meetings. Ranks lay their operands open and wait for each other; each reads
/// from the others what it needs; ranks wait again, so that no rank changes an operand that another
/// still reads.
///
/// So each byte that a rank needs is moved once, from where its owner has it to where this rank
/// needs it. That is the least that any transport can do, because the data has to arrive. An
/// all-gather is one copy of what the others own. A reduce-scatter is one pass that reads a chunk
/// of every rank and writes their sum. A connection needs at least two copies more, into the kernel
/// and out of it. What remains above the copy is the two meetings.
///
/// Each rank of a group has a desk where the others can read. There it says what it calls and where
/// its operand lies. The desk of the group's first rank has a number on it: how often ranks have
/// come, to meet or to part. A rank that comes adds to it, and sleeps until it is high enough. One
/// bit of the number says that the group has failed. From then on no rank that comes to meet is
/// counted, so a meeting of threads succeeds for all or for none. Threads that have met are counted
/// when they part, although the group has failed: none frees an operand that another reads. A desk
/// is given back when all ranks of its group have gone.
///
/// Processes copy an operand of up to 64 KB to the desk. Then no rank waits a second time: the desk
/// has room for two calls, and a rank comes to its next call when it has read all of the last. A
/// large operand that does not lie in shared memory is copied there first.

/// Takes a desk for a group that is to be made. Gives those back that no rank reads any more: peers
/// may still read a desk when its rank has left.
/// @returns where it lies: in the rank's part of the shared memory, or its address
std::uint64_t take_desk(Run& run);

/// The ranks with this color. Collective over the group.
Circle split(Group& group, const Peers& peers, int color);

/// A rank's end of a group whose ranks can read each other's memory.
std::shared_ptr<Group> make_reading_group(std::shared_ptr<Run> run, const Circle& circle);

}  // namespace nanofsdp::comm
