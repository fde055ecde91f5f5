#pragma once

#include <vector>

#include "comm/group.h"

namespace nanofsdp::comm {

/// @file
/// @brief Collectives of ranks that can read each other's memory: threads (local.h), or processes
/// that share some (shared.h).
///
/// A collective is two meetings. Ranks lay their operands open and wait for each other; each reads
/// from the others what it needs; ranks wait again, so that nobody changes an operand that another
/// still reads.
///
/// So each byte that a rank needs is moved once, from where its owner has it to where this rank
/// needs it. That is the least that any transport can do, because the data has to arrive. An
/// all-gather is one copy of what the others own. A reduce-scatter is one pass that reads a chunk
/// of every rank and writes their sum. A connection needs at least two copies more, into the kernel
/// and out of it. What remains above the copy is the two meetings.

/// The collectives, over whatever way there is to meet.
class ReadingGroup : public Group {
 public:
  using Group::Group;
  void all_gather(Stream& stream, const Operation& operation, Tensor in, Tensor out) override;
  void reduce_scatter(Stream& stream, const Operation& operation, Tensor in, Tensor out) override;
  void broadcast(Stream& stream, const Operation& operation, Tensor x) override;
  void barrier(Stream& stream, const Operation& operation) override;

 protected:
  /// Lays `in` open and waits until all ranks have come, with equal operations.
  /// @returns where this rank can read the ranks' `in`, valid until part()
  virtual const std::vector<const void*>& meet(Stream& stream, const Operation& operation,
                                               Tensor in) = 0;

  /// Waits until nobody reads any more.
  /// @param received the bytes that this rank has read from others
  virtual void part(Stream& stream, std::size_t received) = 0;
};

}  // namespace nanofsdp::comm
