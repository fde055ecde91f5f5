#include <gtest/gtest.h>

#include <string>
#include <thread>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "launch/party.h"

// Tests how ranks meet: at the given address and port, where rank 0 serves the store.

namespace nanofsdp::testing {
namespace {

TEST(Store, IsFoundByRanksThatStartBeforeIt) {
  Party run(2);
  Rendezvous zero = run.of(0), one = run.of(1);
  { const Socket nobody(zero.listener); }
  zero.listener = -1;
  one.port = zero.port = launch::listen_on("127.0.0.1", 0).local_port();
  std::thread early([&] { Store(one).leave(); });
  std::this_thread::sleep_for(80ms);
  Store(zero).leave();
  early.join();
}

TEST(Store, IsServedAtTheAddressAskedForAlone) {
  const Socket listener = launch::listen_on("127.0.0.1", 0);
  EXPECT_TRUE(launch::connect_to("127.0.0.1", listener.local_port(), 0ms).is_open());
  EXPECT_FALSE(launch::connect_to("127.0.0.2", listener.local_port(), 0ms).is_open());
}

// A forked rank inherits the descriptor on which rank 0 listens. If it kept it open, strangers
// could still connect, and would get no answer.
TEST(Store, IsServedByRankZeroAlone) {
  Party run(2);
  const Store zero(run.of(0));
  Rendezvous r = run.of(1);
  Socket other = launch::listen_on("127.0.0.1", 0);
  const std::uint16_t port = other.local_port();
  r.listener = dup(other.descriptor());
  other = Socket();
  const Store one(r);
  EXPECT_FALSE(launch::connect_to("127.0.0.1", port, 0ms).is_open());
}

// Otherwise a program that a rank starts would keep the port and the connections after the rank's
// end.
TEST(Socket, IsNotInheritedByOtherPrograms) {
  const Socket listener = launch::listen_on("127.0.0.1", 0);
  const Socket one = launch::connect_to("127.0.0.1", listener.local_port(), 10s);
  const Socket other = launch::accept_on(listener);
  for (const Socket* socket : {&listener, &one, &other}) {
    EXPECT_EQ(fcntl(socket->descriptor(), F_GETFD), FD_CLOEXEC);
  }
}

// After 5 seconds of silence there are three questions, 5 seconds apart.
TEST(Socket, NoticesASilentMachineIn20Seconds) {
#if defined(TCP_KEEPIDLE)
  const Socket listener = launch::listen_on("127.0.0.1", 0);
  const Socket one = launch::connect_to("127.0.0.1", listener.local_port(), 10s);
  const Socket other = launch::accept_on(listener);
  for (const Socket* socket : {&one, &other}) {
    const auto option = [socket](int level, int name) {
      int value = 0;
      socklen_t size = sizeof value;
      EXPECT_EQ(getsockopt(socket->descriptor(), level, name, &value, &size), 0);
      return value;
    };
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
              20);
  }
#endif
}

// A machine drops what comes to a port where too many wait already. So does a firewall, and then
// connect() alone would try for minutes.
TEST(Socket, GivesUpInTimeWhereNobodyAnswers) {
#if defined(__linux__)
  const Socket silent = launch::listen_on("127.0.0.1", 0);
  ASSERT_EQ(listen(silent.descriptor(), 0), 0);
  std::vector<Socket> waiting;
  do {
    waiting.push_back(launch::connect_to("127.0.0.1", silent.local_port(), 0ms));
  } while (waiting.back().is_open() && waiting.size() < 8);
  EXPECT_FALSE(waiting.back().is_open());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(launch::connect_to("127.0.0.1", silent.local_port(), 300ms).is_open());
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 300ms);
  EXPECT_LE(took, 5s);
#endif
}

TEST(Store, SaysThatThePortIsTaken) {
  const Socket taken = launch::listen_on("127.0.0.1", 0);
  const Rendezvous r{.port = taken.local_port(), .size = 2};
  const std::string what = message_of<UsageError>([&] { const Store store(r); });
  EXPECT_NE(what.find("Address already in use"), std::string::npos) << what;
  EXPECT_NE(what.find("MASTER_PORT " + number(r.port)), std::string::npos) << what;
}

TEST(Store, RefusesALoopbackAddressForSeveralMachines) {
  const Rendezvous r{.host = "localhost", .port = 0, .size = 4, .local_size = 2};
  const std::string what = message_of<UsageError>([&] { const Store store(r); });
  EXPECT_NE(what.find("localhost, which is 127.0.0.1 here"), std::string::npos) << what;
}

TEST(Store, SaysThatAHostIsUnknown) {
  for (const int rank : {0, 1}) {
    const Rendezvous r{
        .host = "no.such.host.invalid", .port = 1, .rank = rank, .size = 2, .patience = 0s};
    const std::string what = message_of<UsageError>([&] { const Store store(r); });
    EXPECT_NE(what.find("MASTER_ADDR"), std::string::npos) << what;
  }
}

// A name may become known at any time at which rank 0 may come.
TEST(Store, LooksUpAHostAsLongAsItTriesToConnect) {
  for (const int rank : {0, 1}) {
    const auto begin = std::chrono::steady_clock::now();
    const Rendezvous r{
        .host = "no.such.host.invalid", .port = 1, .rank = rank, .size = 2, .patience = 200ms};
    ::testing::internal::CaptureStderr();
    EXPECT_THROW(const Store store(r), UsageError);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 200ms);
    EXPECT_EQ(said.find("nanofsdp: waits for MASTER_ADDR 'no.such.host.invalid' ("), 0u) << said;
    EXPECT_EQ(said.find('\n') + 1, said.size()) << "once, however often it is looked up: " << said;
  }
}

// A machine may know its own name as 127.0.1.1. If the user has not said where the ranks are, such
// a name is refused at once. 127.0.0.1 and localhost mean that all ranks are on this machine. The
// test uses numbers instead of names.
TEST(Store, RefusesANameThatOtherMachinesWouldNotReach) {
  const Socket zero = launch::listen_on("127.0.1.1", 0);
  const Socket also = launch::listen_on("127.0.0.1", zero.local_port());
  for (const std::string host : {"0x7f000101", "0x7f000001", "127.0.1.1", "localhost"}) {
    for (const int local_size : {0, 1, 2}) {
      const bool name = host.starts_with("0x");
      const bool refused = local_size == 1 || (local_size == 0 && name);
      Rendezvous r{.host = host, .size = 2, .local_size = local_size, .patience = 0s};
      const auto end = [&r] { return message_of<std::exception>([&r] { const Store store(r); }); };
      const std::string why = "MASTER_ADDR: expected an address that other machines reach";
      EXPECT_TRUE(!refused || end().starts_with(why)) << host << " " << local_size;
      r.rank = 1;
      r.port = zero.local_port();
      EXPECT_TRUE(end().starts_with(refused ? why : "rank 1 was not let in")) << end();
    }
  }
}

// The next run may begin on a rank before rank 0 has ended this one. It must not find this store.
TEST(Store, IsNotFoundWhenAllHaveLeft) {
  for (int round = 0; round < 20; ++round) {
    Party run(3);
    Store zero(run.of(0)), one(run.of(1)), two(run.of(2));
    std::thread first([&] { zero.leave(); }), second([&] { one.leave(); });
    EXPECT_TRUE(launch::connect_to("127.0.0.1", run.of(1).port, 0ms).is_open());
    two.leave();
    EXPECT_FALSE(launch::connect_to("127.0.0.1", run.of(1).port, 0ms).is_open());
    first.join();
    second.join();
  }
}

// By default ranks wait for each other at the end as long as at the start.
TEST(Store, WaitsForTheLastToLeaveAsLongAsForTheFirst) {
  Party run(2);
  Rendezvous hasty = run.of(0);
  hasty.patience = 20ms;
  std::thread slow([&] {
    Store one(run.of(1));
    one.loss(10s);
  });
  {
    Store zero(hasty);
    EXPECT_EQ(message_of<RankError>([&] { zero.leave(); }),
              "rank 0 waited 0 s for all ranks to leave");
  }
  slow.join();
}

}  // namespace
}  // namespace nanofsdp::testing
