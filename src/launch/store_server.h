#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/patience.h"
#include "launch/frame.h"
#include "launch/rendezvous.h"
#include "launch/socket.h"

namespace nanofsdp::launch {

/// @file
/// @brief Rank 0's side of the store: one thread that all ranks are connected to.
///
/// The connections are also how a rank's death is noticed, wherever it ran: a connection that
/// closes before its rank has left is a rank that was lost. The first loss is told to everybody.

/// Serves from its constructor until its destructor, on a thread of its own.
class StoreServer {
 public:
  /// @param listener on which the ranks connect
  StoreServer(Socket listener, const Rendezvous& rendezvous);
  ~StoreServer();

 private:
  struct Connection {
    Socket socket;
    std::string buffer{};  // what has come of the next frame
    int rank = -1;         // before its hello
    bool open = true;
    bool answered = true;              // the roll call
    std::vector<std::string> asked{};  // keys that no rank has set yet
  };

  void serve();
  bool serves() const;
  void accept();
  void receive(Connection& connection);
  void handle(Connection& connection, const Frame& frame);
  void greet(Connection& connection, const Frame& hello);
  // Of a stranger: the run goes on. Reads who it says it is.
  std::string objection_to(const Frame& hello, Member& member) const;
  std::string misfit_of(const Member& member) const;
  void refuse(Connection& connection, const std::string& why);
  void set(Connection& connection, const Frame& frame);
  void begin_roll_call();
  void end_roll_call();
  void lose(int rank, const std::string& how);
  void tell_all(const Frame& frame);

  const Socket listener_;
  const Rendezvous rendezvous_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<Patience> roll_call_;  // for answers
  std::chrono::milliseconds idle_{};   // the least that a rank has answered
  std::string work_, told_;            // who works, as it answers; and as people were told
  std::vector<Connection> connections_;
  std::map<std::string, std::string> values_;
  Frame loss_;    // once there is one
  int left_ = 0;  // ranks that want to leave
  int came_ = 0;  // ranks that have been greeted
  std::atomic<bool> all_came_{false};
  std::chrono::steady_clock::time_point stop_at_;  // read once stopping_
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace nanofsdp::launch
