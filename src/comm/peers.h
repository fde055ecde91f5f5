#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/patience.h"
#include "comm/communicator.h"
#include "comm/local.h"
#include "comm/operation.h"

namespace nanofsdp::comm {

/// @file
/// @brief The other ranks of a group, as a rank that waits for them sees them: on their way, too
/// late, or lost.

class Peers;

/// What the groups of one process have in common. As it is, its ranks are threads of the process;
/// ranks that are processes have more (sharing.h).
struct Run {
  explicit Run(std::chrono::milliseconds timeout);  ///< see below; at least 1 ms
  virtual ~Run() = default;

  /// What became of the rank that was lost first: empty if none was, as of threads. Waits a little
  /// for such news.
  virtual std::string loss() { return ""; }
  /// This rank begins to work alone (1), or ends (-1).
  virtual void work(int begins, const std::string& /*at*/) { alone.add(begins); }
  /// For how long no rank has worked alone; longer than any wait if not all move.
  virtual std::chrono::milliseconds idle() { return alone.idle(); }
  /// When the timeout of a wait is over: what is left of it, as time in which a rank works alone
  /// does not count.
  Patience rest() { return Patience(timeout - idle()); }

  /// Ends all waiting in the groups, and in those that are made later.
  void abort(const std::string& reason);

  const std::chrono::milliseconds timeout;  ///< for a rank to come to a collective
  Ledger* ledger = nullptr;                 ///< of the rank; threads take no memory here
  Link link{};                              ///< that threads pretend
  std::shared_ptr<SharedMemory> memory{};   ///< of processes; null: none is shared
  std::vector<int> sharers{};    ///< this rank, and those whose memory it can read; in order
  Work alone{};                  ///< of ranks that are threads
  std::mutex mutex{};            ///< of:
  std::string aborted{};         ///< why it was
  std::vector<Peers*> groups{};  ///< that are alive
  std::vector<std::shared_ptr<void>> desks{};  ///< of this process (reading.h)
};

/// A group that is to be made, as one of its ranks sees it.
struct Circle {
  int rank = 0;                        ///< this one, in the group
  std::vector<int> members{};          ///< their ranks in the run, by which errors name them
  std::vector<std::uint64_t> desks{};  ///< of each, if they can read each other's memory; else none
};

/// The ranks of one group, what this one has called, and how the group ends.
class Peers {
 public:
  /// @param cut called once, from any thread, when the group has failed: wakes the waiting
  Peers(std::shared_ptr<Run> run, const Circle& circle,
        std::function<void(const std::string& reason)> cut);
  ~Peers();

  const std::shared_ptr<Run>& run() const { return run_; }  ///< to which the group belongs
  const std::vector<int>& members() const { return circle_.members; }  ///< in the run

  /// This rank's calls, which errors name.
  const History& calls() const { return calls_; }
  /// Its next call. @returns the same, with its number @throws CommError if the group has failed
  const Operation& begin(const Operation& operation);
  /// Compares a peer's calls with this rank's. @throws CommError mismatch; the group has failed
  void agree(int peer, const History& theirs);

  /// The group has failed. From any thread.
  void abort(const std::string& reason) noexcept;
  /// @throws CommError aborted, if the group has failed
  void check() const;

  /// Finds out why peers do not come, after a timeout or since `why`; the group has failed.
  /// @param peers by their ranks in the group  @param told what they say of it, if anything
  CommError failure(const std::vector<int>& peers, bool timed_out, const std::string& why,
                    const std::string& told = "");

 private:
  using Kind = CommError::Kind;
  const std::shared_ptr<Run> run_;
  const Circle circle_;
  const int rank_;  // in the run
  const std::function<void(const std::string&)> cut_;
  History calls_{};
  mutable std::mutex mutex_;
  std::optional<std::string> aborted_;  // what abort() was told
};

}  // namespace nanofsdp::comm
