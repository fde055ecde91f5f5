#pragma once

#include <memory>
#include <string>

#include "comm/operation.h"

namespace nanofsdp::comm {

/// @file
/// @brief A backend of ours implements this: collectives that block. on_streams() adds the rest.

/// A group of ranks, as a backend sees it. Every function blocks its thread until this rank's part
/// is done, and may throw CommError. There is one call at a time. Its operands have been checked,
/// and its chunks may be empty.
///
/// The stream's work calls these functions. On a CPU this is the stream's own thread. On CUDA it is
/// the thread that issues the call, and the part is done when it has been launched on the stream.
class Group {
 public:
  /// Makes the end of one rank.
  Group(int the_rank, int the_size) : rank(the_rank), size(the_size) {}
  virtual ~Group() = default;

  const int rank;  ///< the number of this rank, from 0 to size - 1
  const int size;  ///< the number of ranks

  /// Whether the group can read and write memory of this device.
  virtual bool serves(Device device) const { return device == Device::cpu; }

  /// Runs one of the collectives (communicator.h). A split is an all_gather of what the ranks must
  /// know for it.
  virtual void run(Stream& stream, const Operation& operation, Tensor in, Tensor out) = 0;

  /// Makes a group of the ranks with this color. They keep their order.
  virtual std::shared_ptr<Group> split(int color) = 0;

  /// A call is about to be enqueued. @returns its cost, or nothing if it is not needed
  virtual Cost announce(const Operation&) { return {}; }

  /// See Communicator::work().
  virtual void work(int /*begins*/, const std::string& /*at*/) {}

  /// Ends the call in progress. Any thread may call it.
  virtual void abort(const std::string& reason) noexcept = 0;
};

/// Makes a Communicator that runs the group's calls on their streams.
std::unique_ptr<Communicator> on_streams(std::shared_ptr<Group> group);

}  // namespace nanofsdp::comm
