#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"
#include "comm/gloo.h"
#include "comm/gloo_wire.h"
#include "comm/rank_data.h"
#include "launch/launch.h"
#include "support/ranks.h"

#if defined(__linux__)
#include <sched.h>
#endif

// Tests Gloo's failures. Each of them must become an error of ours.

namespace nanofsdp::testing {
namespace {

using comm::CommError;
using comm::Communicator;
using comm::ReduceOp;
using Message = comm::GlooWire::Message;
using namespace std::chrono_literals;

class Gloo : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef NANOFSDP_TSAN
    GTEST_SKIP() << "the thread sanitizer does not see inside Gloo";
#endif
  }
};

// A rank that finds a connection cut closes its others, too. The errors at their ends are
// consequences, even if the report of the first error comes late.
TEST_F(Gloo, BlamesTheConnectionThatFailedFirst) {
  const launch::Outcome outcome = launch::run_processes(3, [](launch::Store& store) {
    auto run = std::make_shared<comm::ProcessState>(store, 60s);
    comm::GlooWire wire(std::move(run), "cut", {.rank = store.rank(), .members = {0, 1, 2}});
    try {
      wire.peers().begin({.kind = comm::Operation::Kind::barrier});
      if (store.rank() == 1) throw wire.peers().failure({2}, /*timed_out=*/false, "unplugged");
      Message(wire, Message::Way::receive, /*peer=*/1, /*tag=*/99, nullptr, 0).wait();
    } catch (const CommError& e) {
      if (store.rank() == 1) std::this_thread::sleep_for(200ms);
      throw launch::RankError(e.what(), e.kind == CommError::Kind::aborted);
    }
  });
  EXPECT_EQ(outcome.message, "rank 1 lost rank 2 (unplugged) in barrier 1");
}

TEST_F(Gloo, IgnoresSigpipe) {
  run_ranks(Backend::gloo, 2, [](Context&, Communicator&) {
    struct sigaction action {};
    sigaction(SIGPIPE, nullptr, &action);
    EXPECT_EQ(action.sa_handler, SIG_IGN);
  });
}

#if defined(__linux__)
TEST_F(Gloo, RunsItsThreadInTheBackground) {
  run_ranks(Backend::gloo, 2, [](Context&, std::unique_ptr<Communicator> world) {
    const auto twin = world->split(0);  // one thread serves all groups
    int background = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      background += sched_getscheduler(std::stoi(task.path().filename())) == SCHED_BATCH ? 1 : 0;
    }
    EXPECT_EQ(background, 1);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  });
}
#endif

TEST_F(Gloo, MeetsOnceUnderAName) {
  const launch::Outcome outcome = launch::run_processes(2, [](launch::Store& store) {
    Context context(store.rank(), 2);
    { const auto world = comm::make_gloo(context, store); }
    const auto again = comm::make_gloo(context, store);
  });
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.message.find("was set before"), std::string::npos) << outcome.message;
}

// Without a descriptor for a connection, Gloo would end the process. Each group needs its own.
TEST_F(Gloo, WithTooFewDescriptorsNamesTheLimit) {
  const launch::Outcome outcome = launch::run_processes(3, [](launch::Store& store) {
    Context context(store.rank(), 3);
    const auto world = comm::make_gloo(context, store, {.transport = comm::Transport::gloo});
    std::vector<std::unique_ptr<Communicator>> groups;
    const rlimit limit{64, 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    while (groups.size() < 64) groups.push_back(world->split(0));
  });
  EXPECT_EQ(outcome.exit_code, 2) << outcome.message;
  EXPECT_EQ(outcome.message.find("connections of a group: expected descriptors for 3 ranks"), 0u)
      << outcome.message;
  EXPECT_NE(outcome.message.find("got a limit of 64"), std::string::npos) << outcome.message;
  EXPECT_NE(outcome.message.find("ulimit -n"), std::string::npos) << outcome.message;
}

// The test waits for seconds, because it tests a timeout.
TEST_F(Gloo, SaysWhichRankNeverCame) {
  const launch::Outcome outcome = launch::run_processes(
      2,
      [](launch::Store& store) {
        if (store.rank() == 1) std::this_thread::sleep_for(6s);
        Context context(store.rank(), 2);
        const auto world = comm::make_gloo(context, store);
      },
      /*patience=*/2s);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.message.find("rank 0 could not join its group: rank 1 did not come in 2000 ms"),
            std::string::npos)
      << outcome.message;
}

// A rank may fail while the others connect. They learn of it at once, and its own error may come
// later than theirs. It is the one that counts.
TEST_F(Gloo, LeavesTheLastWordToTheRankThatHasFailed) {
  for (const bool has_come : {false, true}) {  // to the exchange before the connections
    const launch::Outcome outcome = launch::run_processes(2, [=](launch::Store& store) {
      if (store.rank() == 1) {
        if (has_come) store.set("memory/space.1", "");
        std::this_thread::sleep_for(100ms);
        store.fail("no more threads");
        std::this_thread::sleep_for(300ms);
        throw std::runtime_error("no more threads");
      }
      Context context(store.rank(), 2);
      comm::make_gloo(context, store);
    });
    EXPECT_EQ(outcome.message, "rank 1: no more threads") << has_come;
  }
}

TEST_F(Gloo, TakesTimeoutsThatItWouldTurnIntoNone) {
  run_ranks(Backend::gloo, 2,
            [](Context& context, Communicator& world) {
              if (world.rank() == 1) std::this_thread::sleep_for(50ms);
              world.barrier(*context.compute);
            },
            {.timeout = std::chrono::milliseconds::max()});
}

// A rank that is done leaves while its peers still read the bytes that it has sent.
TEST_F(Gloo, LeavingRightAfterTheLastCollectiveCutsNobodyOff) {
  for (int round = 0; round < 10; ++round) {
    run_ranks(Backend::gloo, 3, [](Context& context, std::unique_ptr<Communicator> world) {
      std::vector<float> in(1 << 20, 1.0f + static_cast<float>(context.rank)), all(3 << 20);
      world->all_gather(*context.gather, view(in), view(all)).synchronize();
      world.reset();
      EXPECT_EQ(all[0], 1.0f);
      EXPECT_EQ(all[(3 << 20) - 1], 3.0f);
    });
  }
}

// A rank that goes on must not overwrite bytes that its neighbours still read.
TEST_F(Gloo, GoesOnWhenAllHaveReadAndNotBefore) {
  run_ranks(Backend::shared, 3, [](Context& context, Communicator& world) {
    constexpr std::int64_t n = 1 << 18;
    std::vector<float> in(3 * n), all(3 * n), sum(n);
    for (int round = 0; round < 20; ++round) {
      std::ranges::fill(in, 1.0f + static_cast<float>(context.rank));
      world.all_gather(*context.gather, view(in).slice(0, n), view(all)).synchronize();
      std::ranges::fill(in, 10.0f);
      world.reduce_scatter(*context.gather, view(in), view(sum), ReduceOp::sum).synchronize();
      std::ranges::fill(in, -1.0f);
      ASSERT_EQ(std::ranges::count(all, 1.0f), n);
      ASSERT_EQ(std::ranges::count(all, 2.0f), n);
      ASSERT_EQ(std::ranges::count(all, 3.0f), n);
      ASSERT_EQ(std::ranges::count(sum, 30.0f), n);
    }
  });
}

TEST_F(Gloo, TakesItsMemoryInTheFirstCallAndSaysHowMuch) {
  run_ranks(Backend::gloo, 3, [](Context& context, Communicator& world) {
    const auto reserved = [&] { return context.ledger.count(MemoryClass::communication).reserved; };
    for (const std::int64_t n : {1000, 100, 600000, 700000, 10}) {
      std::vector<float> in(static_cast<std::size_t>(3 * n)), out(static_cast<std::size_t>(n));
      const std::int64_t before = reserved();
      world.reduce_scatter(*context.reduce, view(in), view(out), ReduceOp::sum).synchronize();
      EXPECT_EQ(reserved(), std::max(before, comm::gloo_scratch_bytes(3, 4 * n)));
      const std::int64_t allocations = context.ledger.allocations();
      world.all_reduce(*context.reduce, view(in), ReduceOp::sum).synchronize();
      EXPECT_EQ(context.ledger.allocations(), allocations);
    }
    EXPECT_EQ(reserved(), 2 * (2 << 20));
    EXPECT_EQ(context.ledger.count(MemoryClass::communication).reserved_peak, reserved());
  });
}

// It needs memory for a chunk of every peer, and for large chunks only for two segments of 1 MiB.
TEST_F(Gloo, NeedsMemoryForSmallChunksOrTwoSegments) {
  EXPECT_EQ(comm::gloo_scratch_bytes(1, 4000), 0);
  EXPECT_EQ(comm::gloo_scratch_bytes(2, 4), 4);
  EXPECT_EQ(comm::gloo_scratch_bytes(3, 4000), 8000);
  EXPECT_EQ(comm::gloo_scratch_bytes(4, 2097151), 6291453);
  EXPECT_EQ(comm::gloo_scratch_bytes(4, 2097152), 6291456);
  EXPECT_EQ(comm::gloo_scratch_bytes(4, 2097156), 6291456);
}

}  // namespace
}  // namespace nanofsdp::testing
