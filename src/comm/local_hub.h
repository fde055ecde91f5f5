#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/operation.h"

namespace nanofsdp::comm {

/// @file
/// @brief Where the threads of a local group meet.

class LocalHub {
 public:
  /// What a rank lays open in a meeting.
  struct Operands {
    Operation operation{};
    const void* in = nullptr;  ///< what the others may read until part()
    int color = 0;             ///< of a split
  };

  LocalHub(int size, std::chrono::milliseconds timeout);

  /// Waits until all ranks have come with an equal operation.
  /// @return the operands of all ranks, valid until part()
  /// @throws CommError of every kind but setup
  const std::vector<Operands>& meet(int rank, const Operands& mine);

  /// Ends the meeting: waits until nobody reads operands any more. An abort does not shorten this,
  /// or an operand might be freed while a peer copies it.
  void part(int rank);

  /// In a meeting of a split: the hub of the ranks with this color, the same for all of them.
  std::shared_ptr<LocalHub> child(int color, int size);

  /// The rank will not come again: whoever waits for it gets peer_lost.
  void leave(int rank);

  /// Wakes everyone who waits in meet(), here and in the hubs split from this one; later calls
  /// throw.
  void abort(const std::string& reason);

 private:
  bool all_came(int rank) const;                     // as far as `rank` has
  std::vector<int> late(int rank, bool gone) const;  // who has not; of these, who has left
  [[noreturn]] void fail(CommError::Kind kind, int rank, const Operation& operation,
                         const std::string& what);

  const int size_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Operands> operands_;
  std::vector<std::uint64_t> waits_;  // how often each rank has come to meet() or part()
  std::vector<bool> meeting_;         // between meet() and part()
  std::vector<bool> left_;
  std::string broken_;  // why nothing works any more; empty while it does
  std::map<int, std::shared_ptr<LocalHub>> splitting_;
  std::vector<std::weak_ptr<LocalHub>> children_;
};

}  // namespace nanofsdp::comm
