#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "base/tensor.h"
#include "comm/communicator.h"
#include "comm/operation.h"

namespace nanofsdp::comm {

/// @file
/// @brief What a backend on the CPU implements: collectives that block; on_streams() adds the rest.

/// One rank's end of a group. Every function blocks its thread until this rank's part is done, and
/// throws CommError. One call at a time; operands have been checked; chunks may be empty.
class Group {
 public:
  Group(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Group() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  virtual void all_gather(const Operation& operation, Tensor in, Tensor out) = 0;
  virtual void reduce_scatter(const Operation& operation, Tensor in, Tensor out) = 0;
  virtual void broadcast(const Operation& operation, Tensor x) = 0;
  virtual void barrier(const Operation& operation) = 0;
  virtual std::shared_ptr<Group> split(const Operation& operation, int color) = 0;

  /// Wakes the call in progress. From any thread.
  virtual void abort(const std::string& reason) noexcept = 0;

 protected:
  static void copy(const void* from, const Tensor& to) {
    if (to.bytes() > 0 && to.raw() != from) std::memcpy(to.raw(), from, to.bytes());
  }

  const int rank_;
  const int size_;
};

/// A Communicator that checks operands, numbers the calls and runs them on their streams.
std::unique_ptr<Communicator> on_streams(std::shared_ptr<Group> group);

}  // namespace nanofsdp::comm
