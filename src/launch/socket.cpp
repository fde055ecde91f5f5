#include "launch/socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

namespace nanofsdp::launch {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Asks for a name that is not known until `deadline` is over, because it may become known. Says on
// stderr once that it waits. A literal IPv6 address is refused at once.
sockaddr_in resolve(const std::string& host, std::uint16_t port, Clock::time_point deadline) {
  const addrinfo wanted{.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  NANOFSDP_REFUSE_IF(host.find(':') != host.npos, .what = "MASTER_ADDR",
                     .expected = "a name or an IPv4 address, without a port", .got = host);
  for (bool told = false; const int error = getaddrinfo(host.c_str(), nullptr, &wanted, &found);) {
    NANOFSDP_REFUSE_IF(
        Clock::now() >= deadline, .what = "MASTER_ADDR",
        .expected = "the name or address of rank 0's machine",
        .got = fmt::format("'{}' ({}) in five times --timeout", host, gai_strerror(error)));
    if (!std::exchange(told, true))
      fmt::print(stderr, "nanofsdp: waits for MASTER_ADDR '{}' ({})\n", host, gai_strerror(error));
    std::this_thread::sleep_for(50ms);
  }
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  freeaddrinfo(found);
  address.sin_port = htons(port);
  return address;
}

void set_option(const Socket& socket, int level, int name, int value) {
  setsockopt(socket.descriptor(), level, name, &value, sizeof value);
}

// Makes a socket. With this option, a run that has just ended does not block the port on which the
// next one listens, and neither does a connection that the system has given this very port.
Socket tcp_socket() {
  Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  NANOFSDP_CHECK(socket.is_open(), .what = "socket", .got = std::strerror(errno));
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  return socket;
}

// Small messages are sent at once. If a machine disappears without an error, the connection ends
// within 20 seconds.
void set_up(const Socket& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)  // POSIX of 2024; without these options macOS goes on for two hours
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
#endif
}

// Connects, and waits for an answer until `deadline`, but at least 100 ms and at most a second. If
// no answer comes, connect() alone would wait for minutes. @returns whether the socket is connected
bool reaches(const Socket& socket, const sockaddr_in& address, Clock::time_point deadline) {
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  fcntl(socket.descriptor(), F_SETFL, O_NONBLOCK);
  connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  pollfd answer{.fd = socket.descriptor(), .events = POLLOUT};
  poll(&answer, 1, static_cast<int>(std::clamp<std::int64_t>(rest.count(), 100, 1000)));
  fcntl(socket.descriptor(), F_SETFL, 0);
  // While no process listens there, the system may choose this very port for our end, and then we
  // are our own peer.
  return answer.revents == POLLOUT &&
         socket.peer() != fmt::format("{}:{}", socket.local_address(), socket.local_port());
}

// @param which getsockname or getpeername
sockaddr_in address_of(const Socket& socket, auto which) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  which(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

std::string text_of(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
}

}  // namespace

Socket::Socket(int descriptor) : descriptor_(descriptor) {
  if (!is_open()) return;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  closes_ = {nullptr, [descriptor](void*) { close(descriptor); }};
}

bool Socket::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return shut_down(), false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool Socket::receive(std::string& buffer) const {
  std::array<char, 4096> bytes;
  ssize_t received = 0;
  while ((received = recv(descriptor_, bytes.data(), bytes.size(), 0)) < 0 && errno == EINTR) {
  }
  if (received <= 0) return false;
  buffer.append(bytes.data(), static_cast<std::size_t>(received));
  return true;
}

void Socket::shut_down() const { shutdown(descriptor_, SHUT_RDWR); }

std::string Socket::local_address() const { return text_of(address_of(*this, getsockname)); }
std::uint16_t Socket::local_port() const { return ntohs(address_of(*this, getsockname).sin_port); }
std::string Socket::peer() const {
  const sockaddr_in address = address_of(*this, getpeername);
  return fmt::format("{}:{}", text_of(address), ntohs(address.sin_port));
}

void require_descriptors(std::size_t ranks, const std::string& what) {
  std::vector<Socket> spare(ranks + 8);
  for (Socket& socket : spare) socket = Socket(::socket(AF_INET, SOCK_STREAM, 0));
  NANOFSDP_REFUSE_IF(!spare.back().is_open(), .what = what,
                     .expected = fmt::format("descriptors for {} ranks, and 8 more", ranks),
                     .got = fmt::format("a limit of {}", sysconf(_SC_OPEN_MAX)),
                     .hint = "raise the limit on open files (ulimit -n), or use fewer ranks");
}

Socket listen_on(const std::string& host, std::uint16_t port, std::chrono::milliseconds wait) {
  const sockaddr_in address = resolve(host, port, Clock::now() + wait);
  Socket listener = tcp_socket();
  NANOFSDP_REFUSE_IF(bind(listener.descriptor(), reinterpret_cast<const sockaddr*>(&address),
                          sizeof address) != 0 ||
                         listen(listener.descriptor(), SOMAXCONN) != 0,
                     .what = fmt::format("rank 0 at MASTER_ADDR {}, MASTER_PORT {}", host, port),
                     .expected = "an address of this machine, and a port that is free",
                     .got = std::strerror(errno),
                     .hint = "another run may have the port: choose another one");
  return listener;
}

Socket accept_on(const Socket& listener) {
  Socket connection(accept(listener.descriptor(), nullptr, nullptr));
  if (connection.is_open()) set_up(connection);
  return connection;
}

Socket connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + std::min<std::chrono::milliseconds>(timeout, 24h);
  do {
    const sockaddr_in address = resolve(host, port, deadline);
    Socket socket = tcp_socket();
    set_up(socket);
    if (reaches(socket, address, deadline)) return socket;
    std::this_thread::sleep_for(50ms);
  } while (Clock::now() < deadline);
  return {};
}

}  // namespace nanofsdp::launch
