#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <string>
#include <thread>

#include "launch/party.h"

// A rank that works alone says so when the roll is called, and then the others wait longer for it.

namespace nanofsdp::testing {
namespace {

TEST(Work, CountsAsLongAsItLastsAndAsTimePassesAfterIt) {
  Party run(3);
  run.everybody([](Store& store) {
    const auto in_step = [&](const char* step) {
      store.set(step + number(store.rank()), "");
      for (int rank = 0; rank < 3; ++rank) store.get(step + number(rank), 10s);
    };
    in_step("begin");
    if (store.rank() == 2) store.work(1, "counts"), store.work(1, "counts more");
    in_step("works");
    EXPECT_EQ(store.idle(), 0ms);
    in_step("asked");
    if (store.rank() == 2) store.work(-1, "");
    in_step("half");
    EXPECT_EQ(store.idle(), 0ms) << "one of two works is over";
    in_step("asked again");
    const auto ended = std::chrono::steady_clock::now();
    if (store.rank() == 2) store.work(-1, "");
    std::this_thread::sleep_for(120ms);
    in_step("done");
    const auto since =
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - ended);
    const auto idle = store.idle();
    EXPECT_GE(idle, 120ms);
    EXPECT_LE(idle, since + 1s) << "the answers take a moment";
    store.leave();
  });
}

// A rank that leaves waits for the working rank, longer than it would wait for an idle one.
TEST(Work, IsWaitedForByThoseThatLeave) {
  Party run(2);
  run.everybody([](Store& store) {
    if (store.rank() == 1) {
      store.work(1, "counts");
      store.set("works", "");
      std::this_thread::sleep_for(2500ms);
      store.work(-1, "");
      return store.leave();
    }
    store.get("works", 10s);
    EXPECT_EQ(message_of<RankError>([&] { store.leave(500ms); }), "no error");
  });
}

TEST(Work, OfNobodyLeavesTheLimitAsItIs) {
  Party run(2);
  std::latch told(1);  // rank 0 stays until rank 1 has its word, because it serves the store
  run.everybody([&](Store& store) {
    if (store.rank() == 1) {
      EXPECT_EQ(store.get("gave up", 20s), "");
      return told.count_down();
    }
    EXPECT_EQ(message_of<RankError>([&] { store.leave(1s); }),
              "rank 0 waited 1 s for all ranks to leave");
    store.set("gave up", "");
    told.wait();
  });
}

}  // namespace
}  // namespace nanofsdp::testing
