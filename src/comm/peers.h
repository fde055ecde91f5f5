#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/patience.h"
#include "comm/local.h"
#include "comm/operation.h"

namespace nanofsdp::comm {

/// @file
/// @brief The other ranks of a group, as a waiting rank sees them: still to come, too late, or
/// lost.

class Peers;

/// The state that all groups of a process share. This base class is for ranks that are threads of
/// one process. Ranks that are processes have a derived one (sharing.h).
struct RunState {
  explicit RunState(std::chrono::milliseconds timeout);  ///< the timeout is at least 1 ms
  virtual ~RunState() = default;

  /// How the rank that was lost first was lost. It is empty if no rank was lost, which is always so
  /// for threads. The function waits a short time for such news.
  virtual std::string loss() { return ""; }
  /// Notes that this rank begins to work alone (1), or ends (-1).
  virtual void work(int begins, const std::string& /*at*/) { alone.add(begins); }
  /// For how long no rank has worked alone. If a rank does not answer, the result is longer than
  /// any wait.
  virtual std::chrono::milliseconds idle() { return alone.idle(); }
  /// Whether a wait has reached the timeout. Time in which a rank works alone does not count, so
  /// the ranks are asked before this is true.
  bool ends(Patience& wait) {
    if (!wait.is_over()) return false;
    wait = Patience(timeout - idle());
    return wait.is_over();
  }

  /// Ends all waiting in the groups, and in groups that are made later.
  void abort(const std::string& reason);

  const std::chrono::milliseconds timeout;  ///< until a rank has come to a collective
  /// The ledger of the rank; null for threads, which allocate nothing here.
  Ledger* ledger = nullptr;
  Link link{};                             ///< the link that threads pretend to have
  std::shared_ptr<SharedMemory> memory{};  ///< shared memory of processes; null: there is none
  std::vector<int> sharers{};  ///< the ranks whose memory this rank can read, with itself; in order
  Work alone{};                ///< work of ranks that are threads
  std::mutex mutex{};          ///< guards what follows
  std::string aborted{};       ///< the reason of abort()
  std::vector<Peers*> groups{};                ///< the groups that exist now
  std::vector<std::shared_ptr<void>> slots{};  ///< the slots of this process (reading.h)
};

/// The description of a new group, as one of its ranks sees it.
struct GroupSpec {
  int rank = 0;  ///< number of this rank in the group
  /// Numbers of the group's ranks in the run, by which errors name them.
  std::vector<int> members{};
  /// The ranks' slots, if they can read each other's memory; else empty.
  std::vector<std::uint64_t> slots{};
};

/// The ranks of one group. It knows the calls that this rank has made, and whether the group has
/// failed.
class Peers {
 public:
  /// @param cut is called once, from any thread, when the group has failed. It wakes the ranks that
  ///   wait
  Peers(const std::shared_ptr<RunState>& state, const GroupSpec& spec,
        std::function<void(const std::string& reason)> cut);
  ~Peers();

  const std::shared_ptr<RunState> run;  ///< the state of the process
  const std::vector<int> members;       ///< numbers of the ranks in the run

  /// The calls of this rank, which errors name.
  const History& calls() const { return calls_; }
  /// Begins the next call of this rank. @returns the call with its number @throws CommError if the
  /// group has failed
  const Operation& begin(const Operation& operation);
  /// Compares the calls of a peer with those of this rank. @throws CommError mismatch if they
  /// differ; then the group has failed
  void require_same_call(int peer, const History& theirs);

  /// Says that the group has failed. Any thread may call it.
  void abort(const std::string& reason) noexcept;
  /// @throws CommError aborted, if the group has failed
  void check() const;

  /// Makes the error for peers that do not come, after a timeout or because of `why`. The group has
  /// failed then.
  /// @param peers numbers of these peers in the group
  /// @param told a text about them that is known already, if any
  CommError failure(const std::vector<int>& peers, bool timed_out, const std::string& why,
                    const std::string& told = "");

 private:
  using Kind = CommError::Kind;
  const int rank_;  // number of this rank in the run
  const std::function<void(const std::string&)> cut_;
  History calls_{};
  mutable std::mutex mutex_;
  std::optional<std::string> aborted_;  // the reason of abort()
};

}  // namespace nanofsdp::comm
