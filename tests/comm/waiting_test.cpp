#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "comm/rank_data.h"
#include "comm/run_ranks.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

// Tests how long ranks wait for each other: for a rank that works alone, for a run that was stopped
// as a whole, and for a rank that does not come.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using namespace std::chrono_literals;

constexpr RankOptions kImpatient{.timeout = 600ms};

// The text of the error that ends the run.
template <class Body>
std::string end_of(Backend backend, int world_size, const Body& body) {
  try {
    run_ranks(backend, world_size, body, kImpatient);
  } catch (const RankError& e) {
    return e.what();
  }
  return "no error";
}

class Waiting : public ::testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Waiting, ::testing::ValuesIn(backends()),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Waiting, ForARankThatWorksAloneLastsAsLongAsItsWork) {
  ::testing::internal::CaptureStderr();
  run_ranks(
      GetParam(), 3,
      [](Context& context, Communicator& world) {
        std::vector<float> part(4, 1.0f), whole(12);
        for (int i = 0; i < 2; ++i) {
          if (context.rank == 1) {
            const auto busy = world.busy(i == 0 ? "counts sheep" : "counts goats");
            const auto within = world.busy("counts lambs");
            std::this_thread::sleep_for(1500ms);
          }
          world.all_gather(*context.gather, view(part), view(whole)).synchronize();
          EXPECT_EQ(whole, std::vector<float>(12, 1.0f));
        }
      },
      kImpatient);
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (GetParam() == Backend::local) return;
  EXPECT_EQ(said,
            "nanofsdp: rank 1 counts sheep; the others wait for it\n"
            "nanofsdp: rank 1 counts goats; the others wait for it\n")
      << "once, however often they ask";
}

// Rank 2 waits for rank 0, and rank 0 for rank 1.
TEST_P(Waiting, ForOneThatWaitsForAnotherThatWorksLastsAsLong) {
  run_ranks(
      GetParam(), 3,
      [](Context& context, Communicator& world) {
        const auto pair = world.split(context.rank == 2 ? 1 : 0);
        if (context.rank == 1) {
          const auto busy = pair->busy("counts sheep");
          std::this_thread::sleep_for(1500ms);
        }
        if (context.rank < 2) pair->barrier(*context.compute).synchronize();
        world.barrier(*context.compute).synchronize();
      },
      kImpatient);
}

// Only the time after the work counts for the limit of 600 ms. The work may end at any time of the
// wait, also right before the others ask.
TEST_P(Waiting, ForOneThatHasWorkedBeginsWhenItsWorkEnds) {
  run_ranks(
      GetParam(), 2,
      [](Context& context, Communicator& world) {
        for (const auto work : {300ms, 580ms, 900ms, 1180ms}) {
          if (context.rank == 1) {
            auto busy = world.busy("counts sheep");
            std::this_thread::sleep_for(work);
            busy.reset();
            std::this_thread::sleep_for(330ms);
          }
          world.barrier(*context.compute).synchronize();
        }
      },
      kImpatient);
}

TEST_P(Waiting, ForOneThatHasWorkedAndDoesNotComeHasItsLimit) {
  const std::string error = end_of(GetParam(), 2, [](Context& context, Communicator& world) {
    if (context.rank == 1) {
      { const auto busy = world.busy("counts sheep"); }
      std::this_thread::sleep_for(2500ms);
    }
    world.barrier(*context.compute, {.unit = "a"}).synchronize();
  });
  EXPECT_NE(error.find("waited 600 ms in vain for rank 1 in barrier 1"), error.npos) << error;
}

// If a rank says that it works, this counts only as long as its process runs.
TEST_P(Waiting, ForOneThatWorksAndStopsEndsInTime) {
  if (GetParam() == Backend::local) GTEST_SKIP() << "a thread does not stop alone";
  const auto start = std::chrono::steady_clock::now();
  const std::string error = end_of(GetParam(), 3, [](Context& context, Communicator& world) {
    if (context.rank == 1) {
      const auto busy = world.busy("counts sheep");
      raise(SIGSTOP);
    }
    world.barrier(*context.compute).synchronize();
  });
  EXPECT_NE(error.find("waited 600 ms in vain for rank 1"), error.npos) << error;
  EXPECT_NE(error.find("rank 1 was lost: it does not answer"), error.npos) << error;
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s);
}

// Before rank 0 gives up, it asks the others whether they work alone. Rank 2 answers late, and rank
// 1 comes meanwhile. Then no rank has failed.
TEST_P(Waiting, ForOneThatComesWhileOthersAreAskedIsNotInVain) {
  if (GetParam() == Backend::local) GTEST_SKIP() << "a thread does not stop alone";
  const TemporaryDirectory directory;
  run_ranks(
      GetParam(), 3,
      [&](Context& context, Communicator& world) {
        if (context.rank == 2) directory.write("pid", std::to_string(getpid()));
        const auto pair = world.split(context.rank == 2 ? 1 : 0);
        world.barrier(*context.compute).synchronize();
        if (context.rank == 1) {
          pid_t other = 0;
          std::ifstream(directory.file("pid")) >> other;
          std::this_thread::sleep_for(300ms);
          kill(other, SIGSTOP);
          std::this_thread::sleep_for(500ms);
          std::thread([=] { std::this_thread::sleep_for(250ms), kill(other, SIGCONT); }).detach();
        }
        if (context.rank < 2) pair->barrier(*context.compute, {.unit = "late"}).synchronize();
        if (context.rank == 1) std::this_thread::sleep_for(300ms);
        world.barrier(*context.compute, {.unit = "next"}).synchronize();
      },
      kImpatient);
}

// Each rank tells its own calls, whatever it learns of the other meanwhile. The order depends on
// time, so there are several rounds.
TEST_P(Waiting, InVainIsToldByEveryRankWithItsCalls) {
  for (int round = 0; round < 3; ++round) {
    const TemporaryDirectory directory;
    const std::string error = end_of(GetParam(), 3, [&](Context& context, Communicator& world) {
      const std::string rank = std::to_string(context.rank);
      try {
        world.barrier(*context.compute, {.unit = "a"}).synchronize();
        if (context.rank == 1) std::this_thread::sleep_for(2500ms);
        if (context.rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20 * round));
        world.barrier(*context.compute, {.unit = "b"}).synchronize();
      } catch (const comm::CommError& e) {
        directory.write(rank, e.what());
        directory.write("told." + rank, "");
        // The first failure ends the run, and the other rank may still write.
        const std::string other = directory.file(context.rank == 0 ? "told.2" : "told.0");
        for (int i = 0; i < 500 && !std::filesystem::exists(other); ++i)
          std::this_thread::sleep_for(10ms);
        throw;
      }
    });
    EXPECT_NE(error.find(" waited 600 ms in vain for rank 1 in barrier 2 for unit b"), error.npos)
        << error;
    for (const std::string rank : {"0", "2"}) {
      const std::string told = read_file(directory.file(rank));
      EXPECT_NE(told.find(" in vain "), told.npos) << told;
      EXPECT_NE(told.find("\n  rank " + rank + ": barrier 1 for unit a > barrier 2 for unit b"),
                told.npos)
          << told;
    }
  }
}

// A launcher with its ranks, or a process with its threads, is stopped as a job. Time in which none
// of them ran does not count.
TEST_P(Waiting, DoesNotCountTimeInWhichTheWholeRunWasStopped) {
  for (int round = 0; round < 4; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t run = fork();
    if (run == 0) {
      setpgid(0, 0);
      const std::string error = end_of(GetParam(), 3, [&](Context& context, Communicator& world) {
        for (int i = 0; i < 60; ++i) {
          world.barrier(*context.compute).synchronize();
          if (i == 5 && context.rank == 0 && write(ends[1], "x", 1) != 1) _exit(3);
          if (context.rank == 1) std::this_thread::sleep_for(10ms);
        }
      });
      if (error != "no error") std::fprintf(stderr, "%s\n", error.c_str());
      std::_Exit(error == "no error" ? 0 : 1);
    }
    char ready = 0;
    ASSERT_EQ(read(ends[0], &ready, 1), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * round));
    kill(-run, SIGSTOP);
    std::this_thread::sleep_for(1500ms);
    kill(-run, SIGCONT);
    int status = -1;
    waitpid(run, &status, 0);
    EXPECT_EQ(status, 0) << round;
    close(ends[0]), close(ends[1]);
  }
}

// A rank that waits for no time would find no other. Five times the longest timeout is still a
// time.
TEST(Timeout, OfNoTimeIsRefused) {
  for (const int timeout : {0, -1, INT_MIN}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(comm::run_ranks({.ranks = 2, .timeout = timeout}, [](Context&, auto) {}), 2);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "nanofsdp: timeout: expected 1 or more, got " + std::to_string(timeout) + "\n");
  }
  EXPECT_EQ(comm::RanksOptions{.timeout = INT_MAX}.patience().count(), 5LL * INT_MAX);
}

}  // namespace
}  // namespace nanofsdp::testing
