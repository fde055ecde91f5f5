#include "launch/socket.h"

#include <gtest/gtest.h>

#include <string>

#include <fcntl.h>
#include <sys/socket.h>

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

}  // namespace
}  // namespace nanofsdp::testing
