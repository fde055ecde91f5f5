#include "launch/socket.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "support/usage_error.h"

// A message arrives whole, or the connection ends.

namespace nanofsdp::testing {
namespace {

using launch::Socket;

// The other end would wait for the rest of a message that was sent in part.
TEST(Socket, EndsAConnectionOnWhichItCannotSend) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Socket full(ends[0]), other(ends[1]);
  ASSERT_EQ(fcntl(full.descriptor(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_FALSE(full.send(std::string(16 << 20, 'x')));
  fcntl(other.descriptor(), F_SETFL, O_NONBLOCK);
  std::string received;
  while (other.receive(received)) {
  }
  char more = 0;
  EXPECT_EQ(recv(other.descriptor(), &more, 1, 0), 0) << "the connection is still open";
  EXPECT_LT(received.size(), std::size_t{16} << 20);
}

// A run opens files beside its connections. So eight descriptors must be left, and no more.
TEST(Descriptors, AreEnoughIfEightAreLeft) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{128, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Socket> all;
  do {
    all.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
  } while (all.back().is_open());
  const std::size_t most = all.size() - 1;
  all.clear();
  EXPECT_NO_THROW(launch::require_descriptors(most - 8, "connections"));
  const std::string error = usage_error([&] { launch::require_descriptors(most - 7, "links"); });
  EXPECT_TRUE(one_line_with(error, {"links", "descriptors", "a limit of 128", "ulimit -n"}));
  setrlimit(RLIMIT_NOFILE, &before);
}

// An address of IPv6 will not become known, so no rank waits for it. The same holds for an address
// with a port.
TEST(Socket, RefusesAnAddressWithColonsAtOnce) {
  for (const char* host : {"::1", "2001:db8::7", "[::1]", "127.0.0.1:29500"}) {
    const auto start = std::chrono::steady_clock::now();
    const std::string connects =
        usage_error([&] { launch::connect_to(host, 1, std::chrono::seconds(3)); });
    const std::string listens =
        usage_error([&] { launch::listen_on(host, 0, std::chrono::seconds(3)); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)) << host;
    EXPECT_TRUE(one_line_with(connects, {"MASTER_ADDR", "IPv4", host})) << connects;
    EXPECT_EQ(listens, connects);
  }
}

}  // namespace
}  // namespace nanofsdp::testing
