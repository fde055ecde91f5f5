#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/shared_memory.h"
#include "comm/communicator.h"
#include "launch/store.h"

namespace nanofsdp::comm {

/// @file
/// @brief The other processes of a run, as a rank that waits for them sees them: on their way, too
/// late, or lost.

/// Why a rank waits no longer.
struct WaitError {
  CommError::Kind kind;
  std::string what;  ///< follows "rank 0 ..."
};

class Peers;

/// What the groups of one process have in common.
struct Run {
  /// From here on, a rank that is lost ends all waiting in these groups.
  Run(launch::Store& store, std::chrono::milliseconds timeout,
      std::chrono::milliseconds connect_timeout);
  ~Run();

  /// Whether these ranks have memory in common.
  bool share_memory(const std::vector<int>& ranks) const;

  launch::Store& store;                             ///< where ranks meet, and hear who was lost
  const std::chrono::milliseconds timeout;          ///< for a rank to come to a collective
  const std::chrono::milliseconds connect_timeout;  ///< for a rank to come to a group
  std::shared_ptr<SharedMemory> memory{};           ///< null: none is shared
  std::vector<int> sharers{};                       ///< the ranks with a part in it, in order
  std::mutex mutex{};                               ///< of:
  std::vector<Peers*> groups{};                     ///< that are alive
};

/// The ranks of one group, and how it ends.
class Peers {
 public:
  /// @param members their ranks in the run, by which errors name them
  /// @param cut called once, from any thread, when the group has failed: wakes who waits
  Peers(std::shared_ptr<Run> run, std::vector<int> members, std::function<void()> cut);
  ~Peers();

  const std::shared_ptr<Run>& run() const { return run_; }      ///< to which the group belongs
  const std::vector<int>& members() const { return members_; }  ///< as it was given

  /// The group has failed. From any thread.
  void abort(const std::string& reason) noexcept;

  /// @throws WaitError if the group has failed
  void check() const;

  /// Finds out why `peer` does not come, after a timeout or since `why`; the group has failed.
  /// @throws WaitError
  [[noreturn]] void fail(int peer, bool timed_out, const std::string& why);

 private:
  const std::shared_ptr<Run> run_;
  const std::vector<int> members_;
  const std::function<void()> cut_;
  mutable std::mutex mutex_;
  std::string aborted_;  // what abort() was told
};

}  // namespace nanofsdp::comm
