#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/patience.h"
#include "launch/frame.h"
#include "launch/rank_error.h"
#include "launch/rendezvous.h"
#include "launch/socket.h"

namespace nanofsdp::launch {

/// @file
/// @brief A rank's place in a run. By the store, ranks leave values for each other, and hear that a
/// rank was lost.

class StoreServer;

/// A rank's connection to the store of the run. Any thread may use it.
class Store {
 public:
  /// Joins the run. Rank 0 serves the store. In a run of one rank there is nothing to serve.
  /// @throws UsageError, RankError if the others cannot be found, or if rank 0 refuses this rank
  explicit Store(Rendezvous rendezvous);

  /// Ends the connection. If the rank has not called leave(), it is lost to the others.
  ~Store();
  Store(Store&&) = delete;  // so it cannot be copied either

  int rank() const { return rendezvous_.rank; }  ///< from 0 to size() - 1
  int size() const { return rendezvous_.size; }  ///< the number of ranks of the run

  /// The number of this rank among those of its machine.
  int local_rank() const { return rendezvous_.local_rank < 0 ? rank() : rendezvous_.local_rank; }
  int local_size() const { return rendezvous_.local_size; }  ///< ranks on this machine; 0: unknown

  /// How long this rank waits until others have come.
  std::chrono::milliseconds patience() const { return rendezvous_.patience; }

  /// The address of this machine on the way to rank 0. Other connections use it.
  const std::string& address() const { return address_; }
  /// The network interface that the user has asked for, or nothing.
  const std::string& interface() const { return rendezvous_.interface; }

  /// Sets a value of at most 1 MB. A rank that sets a key for the second time has failed, and all
  /// hear of it.
  void set(const std::string& key, const std::string& value);

  /// Waits until a rank has set the value. @returns nothing if none has set it in time
  /// @throws RankError if a rank was lost meanwhile
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds timeout);

  /// Calls `told` once, from another thread, when a rank is lost. If one was lost already, it calls
  /// it at once. An empty function cancels this, and waits for a call that is in progress.
  void on_loss(std::function<void(const std::string& what)> told);

  /// Waits until a rank is lost. @returns what happened to the first one, "rank 2 failed: ...", or
  /// nothing if none is lost in time
  std::string loss(std::chrono::milliseconds timeout);

  /// Asks whether all ranks still run. A rank that does not answer within a second is lost. Rank 0
  /// asks the others; if it does not answer within three seconds, it is lost.
  /// @returns what happened to the rank that was lost first, or nothing if all run
  std::string roll_call();

  /// Calls the roll. @returns for how long no rank has worked alone. If a rank is lost, it is
  /// longer than any wait
  std::chrono::milliseconds idle();

  /// Says that this rank begins to work alone (1), or that it ends (-1). The rank answers so when
  /// the roll is called.
  /// @param at what it does, for people: "saves weights"
  void work(int begins, const std::string& at);

  /// Tells the others that this rank fails, and why: the first line, at most 3,000 bytes.
  void fail(const std::string& why) noexcept;

  /// Waits until every rank calls it, so that none ends while another still needs it.
  /// @throws RankError if a rank was lost, or if a rank does not leave in time. Time in which a
  /// rank works alone does not count
  void leave(std::chrono::milliseconds timeout);
  /// Waits as long as ranks wait for each other at the start.
  void leave() { leave(rendezvous_.patience); }

 private:
  void listen() noexcept;
  void say(const Frame& frame);
  void handle(const Frame& frame);
  void lost(const std::string& what);
  bool wait(std::chrono::milliseconds timeout, const std::function<bool()>& condition);

  const Rendezvous rendezvous_;
  std::unique_ptr<StoreServer> server_;  // only rank 0 has one
  Socket socket_;
  std::mutex saying_;  // held while a whole frame is sent
  std::string address_;
  std::mutex mutex_;  // guards what the thread writes:
  std::condition_variable news_;
  Work work_;             // work that this rank does alone
  std::string works_at_;  // the name of that work, for people
  std::string loss_;
  std::map<std::string, std::string> values_;
  std::mutex telling_;  // held while told_ is called
  std::function<void(const std::string&)> told_;
  // For how long no rank has worked alone, as the last roll call found; negative: not yet.
  std::atomic<std::chrono::milliseconds> idle_{};
  std::future<void> listening_;  // the last member: its destructor waits for the thread
};

}  // namespace nanofsdp::launch
