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
/// @brief Rank 0's side of the store: one thread, to which all ranks are connected.
///
/// The connections also show whether a rank has died, on whichever machine: if a connection closes
/// before its rank has left, the rank was lost. All ranks are told of the first loss.
///
/// A process that connects and says nothing need not be a rank. The server keeps at most four
/// connections more than the run has ranks. For another one, it closes the oldest without a hello.

/// Serves from its constructor until its destructor, on a thread of its own.
class StoreServer {
 public:
  /// @param listener the socket to which the ranks connect
  StoreServer(Socket listener, const Rendezvous& rendezvous);
  ~StoreServer();

 private:
  struct Connection {
    Socket socket;
    std::string buffer{};              // the bytes of the next frame that have come
    int rank = -1;                     // -1 until the hello has come
    bool answered = true;              // whether it has answered the roll call
    std::vector<std::string> asked{};  // keys that no rank has set yet
  };

  void serve();
  void receive(Connection& connection);
  void handle(Connection& connection, const Frame& frame);
  void greet(Connection& connection, const Frame& hello);
  void set(Connection& connection, const Frame& frame);
  void begin_roll_call();
  void end_roll_call();
  void lose(int rank, const std::string& how);
  void tell_all(const Frame& frame);

  const Socket listener_;
  const Rendezvous rendezvous_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<Patience> roll_call_;  // time for answers to the roll call
  std::chrono::milliseconds idle_{};   // the least idle time that a rank has answered
  std::string work_, told_;            // a rank that works, and the text that people were told
  std::vector<Connection> connections_;
  std::map<std::string, std::string> values_;
  Frame loss_;                                     // the message of the first loss
  int left_ = 0;                                   // ranks that have asked to leave
  std::atomic<int> missing_{rendezvous_.size};     // ranks that have not come yet
  std::chrono::steady_clock::time_point stop_at_;  // is read after stopping_
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace nanofsdp::launch
