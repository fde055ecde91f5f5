#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "base/check.h"
#include "launch/store.h"

// Ranks find each other, let nobody else in, and hear who was lost first and why.

namespace nanofsdp::testing {
namespace {

using launch::RankError;
using launch::Rendezvous;
using launch::Socket;
using launch::Store;
using namespace std::chrono_literals;

// A run of `size` ranks, all of them threads of this process.
class Party {
 public:
  explicit Party(int size) : listener_(launch::listen_on("127.0.0.1", 0)) {
    base_.port = listener_.local_port();
    base_.token = "open sesame";
    base_.program = 7;
    base_.size = base_.local_size = size;
  }

  Rendezvous of(int rank) {
    Rendezvous r = base_;
    r.rank = rank;
    r.listener = rank == 0 ? dup(listener_.descriptor()) : -1;
    return r;
  }

  // Every rank joins, then runs `body`.
  void everybody(const std::function<void(Store& store)>& body) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < base_.size; ++rank) {
      ranks.emplace_back([this, rank, &body] {
        Store store(of(rank));
        body(store);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

 private:
  Socket listener_;
  Rendezvous base_;
};

// What the error says that `action` throws.
template <class Exception, class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no error";
}

std::string number(int i) { return std::to_string(i); }

TEST(Store, BringsTheValuesOfAllRanksToAll) {
  for (const int size : {1, 2, 3, 5}) {
    Party run(size);
    run.everybody([size](Store& store) {
      if (size == 1) return store.leave();
      std::string bytes(3000, static_cast<char>(store.rank()));
      store.set("of " + number(store.rank()), bytes);
      for (int peer = 0; peer < size; ++peer) {
        const auto value = store.get("of " + number(peer), 10s);
        ASSERT_TRUE(value.has_value());
        EXPECT_EQ(*value, std::string(3000, static_cast<char>(peer)));
      }
      store.leave();
    });
  }
}

TEST(Store, WaitsForAValueAndGivesUpInTime) {
  Party run(2);
  run.everybody([](Store& store) {
    EXPECT_FALSE(store.get("nobody sets it", 10ms));
    if (store.rank() == 0) std::this_thread::sleep_for(30ms);
    if (store.rank() == 0) store.set("late", "yes");
    EXPECT_EQ(store.get("late", 10s), "yes");
    store.leave();
  });
}

TEST(Store, HasNoRankLeaveBeforeTheLast) {
  Party run(3);
  std::atomic<bool> last_came{false};
  run.everybody([&](Store& store) {
    if (store.rank() == 1) {
      std::this_thread::sleep_for(50ms);
      last_came = true;
    }
    store.leave();
    EXPECT_TRUE(last_came);
    EXPECT_EQ(store.loss(0ms), "");
  });
}

TEST(Store, WaitsInVainForARankThatDoesNotLeave) {
  Party run(2);
  std::atomic<bool> over{false};
  run.everybody([&](Store& store) {
    if (store.rank() == 0) {
      EXPECT_EQ(message_of<RankError>([&] { store.leave(20ms); }),
                "rank 0 waited 0 s for all ranks to leave");
      over = true;
    }
    while (!over) std::this_thread::sleep_for(1ms);
  });
}

TEST(Store, TellsEverybodyWhoWasLostAndThatItsConnectionClosed) {
  for (int victim = 1; victim < 3; ++victim) {
    Party run(3);
    std::barrier all_here(3);
    run.everybody([&](Store& store) {
      all_here.arrive_and_wait();
      if (store.rank() == victim) return;
      const std::string what = message_of<RankError>([&] { store.get("what never comes", 10s); });
      EXPECT_TRUE(
          what.starts_with("rank " + number(victim) + " was lost: its connection closed (0."))
          << what;
      EXPECT_TRUE(what.ends_with(" s after the start)")) << what;
      EXPECT_EQ(message_of<RankError>([&] { store.leave(); }), what);
    });
  }
}

TEST(Store, KnowsRankZeroByTheEndOfTheStore) {
  Party run(2);
  std::barrier all_here(2);
  run.everybody([&](Store& store) {
    all_here.arrive_and_wait();
    if (store.rank() == 0) return;
    EXPECT_TRUE(store.loss(10s).starts_with("rank 0 was lost: its connection closed"));
  });
}

TEST(Store, PassesOnWhyARankFailsAndKeepsToTheFirst) {
  Party run(3);
  std::barrier all_here(3);
  run.everybody([&](Store& store) {
    all_here.arrive_and_wait();
    if (store.rank() == 1) store.fail("the disk is full\n  and more lines");
    const std::string what = store.loss(10s);
    EXPECT_TRUE(what.starts_with("rank 1 failed: the disk is full (0.")) << what;
    store.fail("a consequence");
    EXPECT_EQ(store.loss(10s), what);
  });
}

TEST(Store, CallsWhoeverWantsToHearOfALoss) {
  Party run(2);
  std::barrier ready(2);
  run.everybody([&](Store& store) {
    if (store.rank() == 1) {
      ready.arrive_and_wait();
      return store.fail("enough");
    }
    std::atomic<int> early{0}, taken_back{0};
    store.on_loss([&](const std::string&) { ++taken_back; });
    store.on_loss([&](const std::string& what) { early += what.starts_with("rank 1 failed: "); });
    ready.arrive_and_wait();
    store.loss(10s);
    while (early == 0) std::this_thread::sleep_for(1ms);
    std::atomic<int> late{0};
    store.on_loss([&](const std::string& what) { late += what.starts_with("rank 1 failed: "); });
    EXPECT_EQ(early, 1);
    EXPECT_EQ(late, 1);
    EXPECT_EQ(taken_back, 0);
    store.on_loss({});
  });
}

TEST(Store, SetsAKeyOnce) {
  Party run(2);
  run.everybody([](Store& store) {
    if (store.rank() == 1) store.set("x", "1"), store.set("x", "2");
    const std::string what = store.loss(10s);
    EXPECT_TRUE(what.starts_with("rank 1 failed: 'x' was set before")) << what;
  });
}

// ---- Who is not let in

class Stranger : public ::testing::Test {
 protected:
  // What somebody hears who comes to a run of 2 as `r`, changed by `change`.
  std::string heard(const std::function<void(Rendezvous& r)>& change) {
    ::testing::internal::CaptureStderr();
    Party run(2);
    const Store zero(run.of(0));
    Rendezvous r = run.of(1);
    change(r);
    const std::string what = message_of<RankError>([&] { const Store one(r); });
    log_ = ::testing::internal::GetCapturedStderr();
    // And the run goes on without it.
    const Store one(run.of(1));
    return what;
  }
  std::string log_;
};

TEST_F(Stranger, HasNotTheToken) {
  const std::string what = heard([](Rendezvous& r) { r.token = "open barley"; });
  EXPECT_NE(what.find("not this run's token (NANOFSDP_TOKEN)"), std::string::npos) << what;
  EXPECT_TRUE(log_.starts_with("nanofsdp: refused 127.0.0.1:")) << log_;
  EXPECT_NE(log_.find("token"), std::string::npos);
  EXPECT_EQ(log_.find("sesame"), std::string::npos);
}

TEST_F(Stranger, ExpectsAnotherNumberOfRanks) {
  const std::string what = heard([](Rendezvous& r) { r.size = r.local_size = 3; });
  EXPECT_NE(what.find("it expects 3 ranks, rank 0 expects 2"), std::string::npos) << what;
}

TEST_F(Stranger, ClaimsARankThatIsTaken) {
  ::testing::internal::CaptureStderr();
  Party run(2);
  const Store zero(run.of(0)), one(run.of(1));
  const std::string what = message_of<RankError>([&] { const Store twin(run.of(1)); });
  ::testing::internal::GetCapturedStderr();
  EXPECT_NE(what.find("rank 1 is taken, by 127.0.0.1:"), std::string::npos) << what;
}

TEST_F(Stranger, RunsAnotherProgram) {
  const std::string what = heard([](Rendezvous& r) { r.program = 8; });
  EXPECT_NE(what.find("rank 1 runs another program than rank 0"), std::string::npos) << what;
}

// With the token it is one that was waited for: the others need not wait any longer.
TEST_F(Stranger, IsARankThatDoesNotFitAndEndsTheRun) {
  for (const bool program : {true, false}) {
    ::testing::internal::CaptureStderr();
    Party run(3);
    Store zero(run.of(0));
    Rendezvous r = run.of(1);
    if (program) r.program = 8;
    if (!program) r.size = r.local_size = 8;
    message_of<RankError>([&] { const Store one(r); });
    ::testing::internal::GetCapturedStderr();
    const std::string what = zero.loss(10s);
    EXPECT_TRUE(what.starts_with("rank 1 was refused: ")) << what;
    Store two(run.of(2));  // which comes later
    EXPECT_EQ(two.loss(10s), what);
  }
}

TEST_F(Stranger, DoesNotEndTheRunByAWrongTokenOrATakenRank) {
  ::testing::internal::CaptureStderr();
  Party run(2);
  Store zero(run.of(0)), one(run.of(1));
  for (const bool token : {true, false}) {
    Rendezvous r = run.of(1);
    r.program = 8;
    if (token) r.token = "open barley";
    message_of<RankError>([&] { const Store stranger(r); });
  }
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(zero.loss(100ms) + one.loss(0ms), "");
}

TEST_F(Stranger, SpeaksAnotherLanguage) {
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "", "2sfn\xff\xff\xff\xff________________"}) {
    ::testing::internal::CaptureStderr();
    Party run(2);
    const Store zero(run.of(0));
    {
      const Socket socket = launch::connect_to("127.0.0.1", run.of(1).port, 1s);
      socket.send(text);
      std::string answer;
      while (*text != '\0' && socket.receive(answer)) {
      }
    }
    const Store one(run.of(1));
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.empty(), *text == '\0') << log;
  }
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
  const Rendezvous r{.host = "no.such.host.invalid", .port = 1, .rank = 1, .size = 2};
  const std::string what = message_of<UsageError>([&] { const Store store(r); });
  EXPECT_NE(what.find("MASTER_ADDR"), std::string::npos) << what;
}

}  // namespace
}  // namespace nanofsdp::testing
