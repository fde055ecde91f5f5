#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "launch/store.h"

namespace nanofsdp::comm {

/// @file
/// @brief Ranks of one machine that read each other's memory: one copy, where a connection needs
/// two and a good deal of the kernel between them.

/// The ranks of a group, as far as this rank can read their memory. Linux only: elsewhere none.
class Neighbours {
 public:
  /// Finds out whether the ranks of a group are all neighbours: each tries to read a word of each.
  /// Collective; a group on several machines, or on a system that forbids it, has none.
  /// @throws RankError if a rank was lost meanwhile, or is silent for `timeout`
  Neighbours(launch::Store& store, const std::string& group, int rank, int size,
             std::chrono::milliseconds timeout);

  /// Whether every rank can read from every other. The same on all of them.
  bool all() const { return all_; }

  /// Copies `bytes` at address `from` of a rank. False if it is gone.
  bool read(int rank, std::uint64_t from, void* to, std::size_t bytes) const;

 private:
  std::vector<pid_t> processes_;
  bool all_ = true;
};

}  // namespace nanofsdp::comm
