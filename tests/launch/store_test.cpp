#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "launch/party.h"

// Ranks leave each other values, leave together, and hear who was lost first and why.

namespace nanofsdp::testing {
namespace {

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
    EXPECT_EQ(store.get("late", std::chrono::milliseconds::max()), "yes");
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
    EXPECT_TRUE(store.loss(10s).starts_with("rank 0 was lost: its connection"));
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

TEST(Store, TellsTheFirstLossToARankThatComesLater) {
  Party run(3);
  Store zero(run.of(0)), one(run.of(1));
  one.fail("the first");
  zero.loss(10s);
  zero.fail("the second");
  Store two(run.of(2));
  const std::string what = two.loss(10s);
  EXPECT_TRUE(what.starts_with("rank 1 failed: the first")) << what;
}

TEST(Store, TellsARankOnItsWayWhyRankZeroIsGone) {
  Party run(2);
  std::thread rank_zero([&] { Store(run.of(0)).fail("unknown option"); });
  std::this_thread::sleep_for(300ms);
  Store one(run.of(1));
  const std::string what = one.loss(10s);
  EXPECT_TRUE(what.starts_with("rank 0 failed: unknown option")) << what;
  rank_zero.join();
}

TEST(Store, KeepsToTheFirstLossWhenRankZeroGoesToo) {
  Party run(3);
  auto zero = std::make_unique<Store>(run.of(0));
  Store one(run.of(1)), two(run.of(2));
  one.fail("the first");
  const std::string what = two.loss(10s);
  zero.reset();
  std::this_thread::sleep_for(50ms);  // time for the news, which must change nothing
  EXPECT_TRUE(what.starts_with("rank 1 failed: the first")) << what;
  EXPECT_EQ(two.loss(0ms), what);
}

TEST(Store, CallsWhoeverWantsToHearOfALoss) {
  Party run(3);
  std::barrier ready(3);
  run.everybody([&](Store& store) {
    if (store.rank() == 1) {
      ready.arrive_and_wait();
      return store.fail("enough");
    }
    std::atomic<int> early{0}, taken_back{0};
    store.on_loss([&](const std::string&) { ++taken_back; });
    if (store.rank() == 2) {  // cancels its request
      store.on_loss({});
      ready.arrive_and_wait();
      store.loss(10s);
      std::this_thread::sleep_for(100ms);  // a call would come in this time
      EXPECT_EQ(taken_back, 0);
      return;
    }
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

// A stopped process keeps its connections. Here a process that never reads them stands for it.
TEST(Store, FindsOutWhoDoesNotAnswer) {
  Party run(3);
  std::barrier all_here(3);
  std::thread still([&] {
    const Rendezvous r = run.of(2);
    const Socket socket = launch::connect_to(r.host, r.port, 10s);
    const launch::Member member{.program = r.program, .rank = 2, .size = 3};
    socket.send(launch::encode(
        {.key = r.token, .value = {reinterpret_cast<const char*>(&member), sizeof member}}));
    std::string received;  // the welcome; after that the store counts it as a rank
    while (!launch::take_frame(received)) ASSERT_TRUE(socket.receive(received));
    all_here.arrive_and_wait();
    all_here.arrive_and_wait();
  });
  const auto moves = [&](int rank) {
    Store store(run.of(rank));
    all_here.arrive_and_wait();
    const std::string what = rank == 0 ? store.roll_call() : store.loss(10s);
    EXPECT_TRUE(what.starts_with("rank 2 was lost: it does not answer (")) << what;
    all_here.arrive_and_wait();
  };
  std::thread one([&] { moves(1); });
  moves(0);
  one.join();
  still.join();
}

// Rank 1 fails, and then asks to leave like the others. The test reads the store's answers.
TEST(Store, LetsNobodyLeaveInPeaceAfterALoss) {
  using Kind = launch::Frame::Kind;
  Party run(2);
  std::vector<std::string> answers;
  std::thread fails([&] {
    const Rendezvous r = run.of(1);
    const Socket socket = launch::connect_to(r.host, r.port, 10s);
    const launch::Member member{.program = r.program, .rank = 1, .size = 2};
    socket.send(launch::encode(
        {.key = r.token, .value = {reinterpret_cast<const char*>(&member), sizeof member}}));
    socket.send(launch::encode({.kind = Kind::failed, .value = "enough"}));
    socket.send(launch::encode({.kind = Kind::leave}));
    std::string received;
    while (socket.receive(received)) {
      while (const auto frame = launch::take_frame(received))
        answers.push_back(frame->kind == Kind::lost ? "lost" : frame->key);
    }
  });
  {
    Store store(run.of(0));
    EXPECT_TRUE(store.loss(10s).starts_with("rank 1 failed: enough ("));
    EXPECT_TRUE(message_of<RankError>([&] { store.leave(10s); }).starts_with("rank 1 failed:"));
  }
  fails.join();
  EXPECT_EQ(std::ranges::count(answers, "lost"), 1);
  EXPECT_EQ(std::ranges::count(answers, launch::kLeft), 0);
}

// The part of rank 0 that welcomes a rank.
Socket welcome(const Socket& listener) {
  Socket one = launch::accept_on(listener);
  one.send(launch::encode({launch::Frame::Kind::value, launch::kWelcome}));
  return one;
}

// If rank 0 is stopped, it does not call the roll. A rank waits three seconds for that.
TEST(Store, MissesRankZeroByTheRollCallThatDoesNotCome) {
  const Socket listener = launch::listen_on("127.0.0.1", 0);
  std::thread still([&] {
    const Socket one = welcome(listener);
    std::string ignored;
    while (one.receive(ignored)) {
    }
  });
  {
    Store store({.port = listener.local_port(), .rank = 1, .size = 2});
    EXPECT_EQ(store.roll_call(), "rank 0 was lost: it does not answer");
  }
  still.join();
}

// Each roll call needs its own answers. Rank 0 gives one answer here, and none to the second call,
// which waits for three seconds.
TEST(Store, BelievesNoEarlierRollCall) {
  const Socket listener = launch::listen_on("127.0.0.1", 0);
  std::thread tired([&] {
    const Socket one = welcome(listener);
    std::string received;
    bool answered = false;
    while (one.receive(received)) {
      while (const auto frame = launch::take_frame(received)) {
        if (frame->kind != launch::Frame::Kind::roll_call || std::exchange(answered, true))
          continue;
        one.send(launch::encode({.kind = launch::Frame::Kind::pong, .key = "0"}));
      }
    }
  });
  {
    Store store({.port = listener.local_port(), .rank = 1, .size = 2});
    EXPECT_EQ(store.roll_call(), "");
    EXPECT_EQ(store.roll_call(), "rank 0 was lost: it does not answer");
  }
  tired.join();
}

TEST(Store, LosesNobodyWhereAllAnswer) {
  Party run(3);
  run.everybody([](Store& store) {
    EXPECT_EQ(store.roll_call(), "");
    store.leave();
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

}  // namespace
}  // namespace nanofsdp::testing
