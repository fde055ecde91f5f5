#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ledger.h"
#include "comm/group.h"
#include "comm/peers.h"

namespace nanofsdp::comm {

/// @file
/// @brief Ranks that are processes of one machine, and read each other's memory (reading.h).
///
/// Each rank of a group has a desk in shared memory. There it says what it calls and where its
/// operand lies, and counts how often it has come to meet or to part; the others sleep until that
/// number is high enough (a futex). An operand of up to 64 KB is copied to the desk. Then nobody
/// waits a second time: the desk has room for two calls, and a rank comes to its next call when it
/// has read all of the last. A large operand that does not lie in shared memory is copied there
/// first.

/// Takes room for a rank's end of a group of ranks that share memory. It is kept until the process
/// ends: peers may still read it when this rank has left. Nothing if the run shares no memory.
/// @returns where it lies in the rank's part
std::uint64_t take_desk(const Run& run);

/// What a rank tells the others when its group is split.
struct Seat {
  std::int64_t color = 0;  ///< which group it will belong to
  std::uint64_t desk = 0;  ///< its take_desk() for that
};

/// A group that is to be made, as one of its ranks sees it.
struct Circle {
  int rank = 0;                        ///< this one, in the group
  std::vector<int> members{};          ///< their ranks in the run
  std::vector<std::uint64_t> desks{};  ///< of each
};

/// The ranks with the color of `rank`.
/// @param seats what the ranks of the group have told  @param members these ranks, in the run
Circle circle_of(const std::vector<Seat>& seats, int rank, const std::vector<int>& members);

/// A rank's end of a group of ranks that share memory; a copy, for a rank alone.
std::shared_ptr<Group> make_shared_group(Ledger& ledger, std::shared_ptr<Run> run, Circle circle);

}  // namespace nanofsdp::comm
