#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/peers.h"
#include "launch/store.h"

namespace gloo::transport {
class Device;
}

namespace nanofsdp::comm {

/// @file
/// @brief How ranks that are processes come together: by way of the store; and how those of one
/// machine come to share memory.

/// What the groups of one process have in common, where the ranks are processes.
struct ProcessRun final : Run {
  /// From here on, a rank that is lost ends all waiting in these groups.
  ProcessRun(launch::Store& store, std::chrono::milliseconds timeout,
             std::chrono::milliseconds connect_timeout);
  ~ProcessRun() override { store.on_loss({}); }

  std::string loss() override { return store.loss(std::chrono::seconds(1)); }
  void work(int begins, const std::string& at) override { store.work(begins, at); }
  std::chrono::milliseconds idle() override { return store.idle(); }

  /// What another rank has left in the store.
  /// @param what it is, for the error  @param patience in connect_timeouts
  /// @throws CommError setup, if it does not come in time
  std::string hear(const std::string& key, const std::string& what, int patience = 1);

  /// What these ranks say under `key`, which no rank has used; this one says `mine`.
  /// @throws CommError as hear()
  std::vector<std::string> gather(const std::string& key, const std::string& mine,
                                  const std::vector<int>& ranks, int patience = 1);

  /// A group could not be formed: because a rank was lost, or because of `complaint`.
  CommError setup_error(const std::string& complaint);

  launch::Store& store;                               ///< where ranks meet, and hear who was lost
  const std::chrono::milliseconds connect_timeout;    ///< for a rank to come to a group
  std::shared_ptr<gloo::transport::Device> device{};  ///< of Gloo's connections (gloo_wire.h)
};

/// Finds the ranks of the run that are on this machine and shares memory with them: `memory` and
/// `sharers` of the run. The first of them makes a file in memory, the others open it, and all
/// close it when all have mapped it: then it has neither a name nor a number. Collective over the
/// run.
/// @returns why not all ranks of the run share memory; empty if they do
/// @throws CommError setup, if a rank does not come
std::string share_memory(ProcessRun& run);

}  // namespace nanofsdp::comm
