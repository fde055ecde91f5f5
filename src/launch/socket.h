#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace nanofsdp::launch {

/// @file
/// @brief The part of TCP that ranks need to find each other. Addresses are IPv4.

/// A connection, or a socket that accepts connections. Copies are the same one. It is closed when
/// the last of them is destroyed.
class Socket {
 public:
  Socket() = default;
  /// Takes the descriptor. A program that this one starts does not inherit it.
  explicit Socket(int descriptor);

  bool is_open() const { return descriptor_ >= 0; }  ///< false for a default Socket
  int descriptor() const { return descriptor_; }     ///< for poll(); -1 if it is closed

  /// Sends all of `bytes`. @returns false if the other end is gone
  bool send(std::string_view bytes) const;

  /// Appends the bytes that have come, and waits for some if there are none. @returns false if the
  /// connection has ended
  bool receive(std::string& buffer) const;

  /// Ends the connection in both directions, so that a waiting receive() returns. Any thread may
  /// call it.
  void shut_down() const;

  std::string local_address() const;  ///< "10.0.0.1"
  std::uint16_t local_port() const;   ///< the port of this end
  std::string peer() const;           ///< "10.0.0.2:51234"

 private:
  int descriptor_ = -1;
  std::shared_ptr<void> closes_;  // points to nothing; its deleter closes the descriptor
};

/// Checks that this process can open a connection to each of `ranks`, and eight descriptors more
/// for the rest of its work.
/// @param what the connections, for the error: "connections of rank 0"
/// @throws UsageError if it cannot. The error names the limit
void require_descriptors(std::size_t ranks, const std::string& what);

/// Listens on the address of `host`, which must be one of this machine's, and on no other. With
/// port 0 it takes any free one. A name that is not known is looked up until `wait` is over.
/// @throws UsageError if it cannot. A literal IPv6 address is refused at once
Socket listen_on(const std::string& host, std::uint16_t port, std::chrono::milliseconds wait = {});

/// Waits for the next connection. If the system has no descriptor for it, the socket is closed.
Socket accept_on(const Socket& listener);

/// Looks up the name and tries to connect until `timeout` is over, because the other end may start
/// later. The last attempt may take 100 ms more, and the last look-up as long as the system's
/// resolver allows. If the other end never came, the socket is closed.
/// @throws UsageError if the host has no address at the end. A literal IPv6 address is refused
/// at once
Socket connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout);

}  // namespace nanofsdp::launch
