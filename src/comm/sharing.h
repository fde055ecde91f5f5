#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/peers.h"
#include "launch/store.h"

namespace nanofsdp::comm {

/// @file
/// @brief The start of ranks that are processes. They find each other through the store, and the
/// ranks of one machine share memory.

/// The state that all groups of a process share, if the ranks are processes.
struct ProcessState final : RunState {
  /// After this, all waiting in these groups ends if a rank is lost.
  ProcessState(launch::Store& store, std::chrono::milliseconds timeout);
  ~ProcessState() override { store.on_loss({}); }

  std::string loss() override { return store.loss(std::chrono::seconds(1)); }
  void work(int begins, const std::string& at) override { store.work(begins, at); }
  std::chrono::milliseconds idle() override { return store.idle(); }

  /// Reads the value that another rank has left in the store.
  /// @param what the thing that the value is, for the error  @param patience how often
  ///   store.patience() it waits
  /// @throws CommError if it does not come in time; RankError if a rank was lost
  std::string read(const std::string& key, const std::string& what, int patience = 1);

  /// Exchanges values of these ranks under `key`, which must be new. The value of this rank is
  /// `mine`.
  /// @throws CommError, RankError as read()
  std::vector<std::string> gather(const std::string& key, const std::string& mine,
                                  const std::vector<int>& ranks, int patience = 1);

  /// Makes the error for a group that could not be formed: aborted, if a rank was lost; else setup,
  /// because of `complaint`.
  CommError setup_error(const std::string& complaint);

  launch::Store& store;            ///< ranks meet here, and learn that a rank was lost
  std::shared_ptr<void> device{};  ///< Gloo's, for connections; gloo_wire.cpp knows its type
};

/// Finds the ranks of the run that are on this machine, and shares memory with them. It sets
/// `memory` and `sharers` of the run. The first of these ranks makes a file in memory, and the
/// others open it. When all have mapped it, they close it, so the file has neither a name nor a
/// descriptor. Collective over the run.
/// @param ranks the ranks of the run
/// @param wanted whether this rank wants to share memory. If it does not, it says so to the others
/// @returns why not all ranks of the run share memory; empty if they do
/// @throws CommError if a rank does not come in time; RankError if a rank was lost
std::string share_memory(ProcessState& run, std::vector<int> ranks, bool wanted);

}  // namespace nanofsdp::comm
