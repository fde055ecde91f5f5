#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace nanofsdp::launch {

/// @file
/// @brief TCP, as much of it as ranks need to find each other. Addresses are IPv4.

/// A connection, or a place where connections are accepted. Closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}  ///< owned from now on
  ~Socket();
  /// Takes the connection over; the other socket is closed afterwards.
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  /// Closes what it had, and takes the connection over.
  Socket& operator=(Socket&& other) noexcept;

  bool is_open() const { return descriptor_ >= 0; }  ///< false for a default Socket
  int descriptor() const { return descriptor_; }     ///< for poll() and the like; -1: none

  /// All of `bytes`, or false if the other end is gone.
  bool send(std::string_view bytes) const;

  /// Appends what has come; blocks if nothing has. False at the end of the connection.
  bool receive(std::string& buffer) const;

  /// Ends the connection both ways; a receive() that blocks returns. From any thread.
  void shut_down() const;

  std::string local_address() const;  ///< "10.0.0.1"
  std::uint16_t local_port() const;   ///< of this end
  std::string peer() const;           ///< "10.0.0.2:51234"

 private:
  int descriptor_ = -1;
};

/// Listens on the address of `host`, which must be one of this machine's, and on no other. Port 0
/// is any free one. @throws UsageError
Socket listen_on(const std::string& host, std::uint16_t port);

/// The next connection; blocks until there is one.
Socket accept_on(const Socket& listener);

/// Tries until `timeout` is over: the other end may start later. A closed socket if it never came.
/// @throws UsageError for a host without an address
Socket connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout);

}  // namespace nanofsdp::launch
