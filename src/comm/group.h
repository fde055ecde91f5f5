#pragma once

#include <memory>
#include <string>

#include "base/tensor.h"
#include "comm/communicator.h"
#include "comm/operation.h"

namespace nanofsdp::comm {

/// @file
/// @brief What a backend of ours implements: collectives that block; on_streams() adds the rest.

/// One rank's end of a group. Every function blocks its thread until this rank's part is done, and
/// throws CommError. One call at a time; operands have been checked; chunks may be empty.
///
/// They are called from the stream's work. On the CPU that is the stream's own thread. On CUDA it
/// is the thread that issues the call, and a part is done when it is launched on the stream.
class Group {
 public:
  Group(int rank, int size) : rank_(rank), size_(size) {}  ///< this end's rank, of `size`
  virtual ~Group() = default;
  int rank() const { return rank_; }  ///< 0 ... size - 1
  int size() const { return size_; }  ///< ranks

  /// Whether it can read and write memory of this device.
  virtual bool serves(Device device) const { return device == Device::cpu; }

  /// One of the collectives (communicator.h). A split is an all_gather of what the ranks have to
  /// tell for it.
  virtual void run(Stream& stream, const Collective& collective) = 0;

  /// This rank's end of a group of the ranks with its color, in the order of their ranks here.
  virtual std::shared_ptr<Group> split(int color) = 0;

  /// A call is about to be enqueued. @returns its cost, or none if it is not needed
  virtual Cost announce(const Operation&) { return {}; }

  /// As Communicator::work().
  virtual void work(int /*begins*/, const std::string& /*at*/) {}

  /// Wakes the call in progress. From any thread.
  virtual void abort(const std::string& reason) noexcept = 0;

 protected:
  const int rank_;  ///< as rank()
  const int size_;  ///< as size()
};

/// A Communicator that runs its calls on their streams.
std::unique_ptr<Communicator> on_streams(std::shared_ptr<Group> group);

}  // namespace nanofsdp::comm
