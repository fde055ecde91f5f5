#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "comm/gloo_wire.h"
#include "comm/operation.h"

namespace nanofsdp::comm {

/// @file
/// @brief How Gloo ranks find out that they disagree, at the price of no extra round trip.
///
/// Each rank sends every peer its Operation and, without waiting, posts the messages of the payload
/// as well. Payload travels in a slot that is a hash of the operation: what belongs to different
/// calls never meets. So a message can never be longer than its receiver expects, which would end
/// the receiver's process inside Gloo, nor shorter, which would pass in silence; and while it lies
/// there, the operations arrive and the error can name both calls.

/// Who a group is to its wire.
struct Peers {
  GlooWire& wire;
  int rank;
  int size;

  /// The i-th peer for i = 1 .. size - 1: every rank begins with another one.
  int operator()(int i) const { return (rank + i) % size; }
};

class Agreement {
 public:
  using Messages = std::deque<GlooWire::Message>;  // which never moves what it holds

  /// Tells the peers. Does not block.
  Agreement(const Peers& peers, const Operation& operation);

  /// Waits for what the peers have to tell. Nothing of the payload is waited for before.
  /// @throws CommError mismatch, on every rank that sees one, after all ranks have seen it
  /// @throws WireError
  void settle();

  /// For the payload.
  std::uint64_t slot() const;

 private:
  void exchange_farewells();

  const Peers peers_;
  const Operation mine_;
  std::vector<Operation> theirs_;  // by rank
  Messages messages_;
};

}  // namespace nanofsdp::comm
