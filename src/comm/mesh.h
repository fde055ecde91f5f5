#pragma once

#include <memory>
#include <string>
#include <utility>

#include "comm/communicator.h"
#include "comm/counting.h"

namespace nanofsdp::comm {

/// @file
/// @brief The communicators that training takes: one a stream, so each has an order of its own.
///
/// All-gathers of parameters and reductions of gradients are issued on two streams and may overtake
/// each other, on one rank sooner than on another; within one communicator that would pair the
/// wrong calls. So each stream has a communicator over the same ranks, and the main thread a third.

class Mesh {
 public:
  /// Splits `world` twice. Collective over its ranks.
  explicit Mesh(std::unique_ptr<Communicator> world)
      : world_(std::move(world)), gather_(world_.split(0)), reduce_(world_.split(0)) {}

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  Communicator& world() { return world_; }    ///< for the compute stream: norms, losses, control
  Communicator& gather() { return gather_; }  ///< for the stream of the all-gathers
  Communicator& reduce() { return reduce_; }  ///< for the stream of the reductions

  /// Of the three together, since the last reset.
  Traffic traffic() const { return world_.traffic() + gather_.traffic() + reduce_.traffic(); }

  void reset_traffic() {
    for (CountingCommunicator* comm : {&world_, &gather_, &reduce_}) comm->reset();
  }

  /// Aborts all three: call it when one fails, so that no stream waits for the others' timeout.
  void abort(const std::string& reason) noexcept {
    for (CountingCommunicator* comm : {&world_, &gather_, &reduce_}) comm->abort(reason);
  }

 private:
  CountingCommunicator world_;
  CountingCommunicator gather_;
  CountingCommunicator reduce_;
};

}  // namespace nanofsdp::comm
