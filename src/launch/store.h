#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/patience.h"
#include "launch/frame.h"
#include "launch/rank_error.h"
#include "launch/rendezvous.h"
#include "launch/socket.h"

namespace nanofsdp::launch {

/// @file
/// @brief A rank's place in a run: values that ranks leave for each other, and news of the lost.

class StoreServer;

/// One rank's connection to the store of the run. Any thread may use it.
class Store {
 public:
  /// Joins the run; rank 0 serves it. A run of one rank has no store, only a place.
  /// @throws UsageError, RankError if the others cannot be found, or rank 0 does not want this one
  explicit Store(const Rendezvous& rendezvous);

  /// A rank that ends without leave() is lost to the others.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  int rank() const { return rendezvous_.rank; }  ///< 0 ... size() - 1
  int size() const { return rendezvous_.size; }  ///< ranks of the run

  /// The same among the ranks of this machine.
  int local_rank() const { return rendezvous_.local_rank < 0 ? rank() : rendezvous_.local_rank; }
  int local_size() const { return rendezvous_.local_size; }  ///< 0: unknown

  /// This machine's address on the way to rank 0, for other connections; and the interface, if one
  /// was asked for.
  const std::string& address() const { return address_; }
  const std::string& interface() const { return rendezvous_.interface; }  ///< empty: none

  /// Each key once.
  void set(const std::string& key, const std::string& value);

  /// The value, as soon as a rank has set it; none if none has in time.
  /// @throws RankError if a rank was lost meanwhile
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds timeout);

  /// Calls `told` once from another thread when a rank is lost, at once if one was; an empty
  /// function takes that back, and waits for a call in progress.
  void on_loss(std::function<void(const std::string& what)> told);

  /// What became of the rank that was lost first, "rank 2 failed: ..."; waits for such news, and is
  /// empty if there is none in time.
  std::string loss(std::chrono::milliseconds timeout);

  /// Asks whether all ranks still move, if this one waits too long. A rank without answer is lost.
  /// @returns what became of the first that was lost, or nothing; if not all answer, takes a
  /// second, or three for rank 0, which calls the roll
  std::string roll_call();

  /// Calls the roll. @returns for how long no rank has worked alone; longer than any wait if one is
  /// lost
  std::chrono::milliseconds idle() {
    return roll_call().empty() ? idle_.load() : 2 * Patience::kLongest;
  }

  /// This rank begins to work alone (1), or ends (-1): it says so when the roll is called.
  /// @param at what, "saves weights"
  void work(int begins, const std::string& at);

  /// Tells the others that this rank fails, and why.
  void fail(const std::string& why) noexcept;

  /// Waits until every rank leaves, so that none leaves while another still needs it.
  /// @throws RankError if a rank was lost or does not leave in time, while none works alone
  void leave(std::chrono::milliseconds timeout = std::chrono::minutes(10));

 private:
  void join(Socket listener);
  void listen();
  void say(const Frame& frame);
  void handle(const Frame& frame);
  void lost(const std::string& what);
  template <class Condition>
  bool wait(std::chrono::milliseconds timeout, const Condition& condition);

  const Rendezvous rendezvous_;
  std::unique_ptr<StoreServer> server_;  // rank 0's
  Socket socket_;
  std::mutex saying_;  // whole frames
  std::string address_;
  std::mutex mutex_;  // of what the thread writes:
  std::condition_variable news_;
  bool welcome_ = false;
  bool left_ = false;
  bool all_well_ = false;  // as the last roll call found
  Work work_;              // of this rank, alone
  std::string works_at_;   // what that is
  std::string refused_;
  std::string loss_;
  std::map<std::string, std::string> values_;
  std::mutex telling_;  // held while told_ is called
  std::function<void(const std::string&)> told_;
  std::atomic<std::chrono::milliseconds> idle_{2 * Patience::kLongest};  // as it found, too
  std::thread thread_;
};

}  // namespace nanofsdp::launch
