#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/platform.h"
#include "comm/gloo.h"
#include "comm/rank_data.h"
#include "launch/launch.h"
#include "support/ranks.h"

// However a rank ends: one message soon, an exit code other than 0, and no process or file is left.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using launch::Outcome;
using launch::Store;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Launch : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef NANOFSDP_TSAN
    GTEST_SKIP() << "the thread sanitizer does not see inside Gloo";
#endif
    directory_ = ::testing::TempDir() + "nanofsdp-launch-" + std::to_string(getpid());
    std::filesystem::create_directories(directory_);
    setenv("TMPDIR", directory_.c_str(), 1);
  }

  void TearDown() override {
    if (directory_.empty()) return;
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
    EXPECT_EQ(errno, ECHILD);
    EXPECT_TRUE(std::filesystem::is_empty(directory_)) << "a file is left";
    std::filesystem::remove_all(directory_);
    unsetenv("TMPDIR");
  }

  static constexpr comm::Transport kTransports[] = {comm::Transport::shared, comm::Transport::gloo};

  // Runs ranks that sum 4 MB again and again; `disturb(rank)` is called while a sum is under way.
  static Outcome run_disturbed(int world_size, const comm::GlooOptions& options,
                               const std::function<void(int rank)>& disturb) {
    const auto start = Clock::now();
    const Outcome outcome = launch::run_processes(world_size, [&](Store& store) {
      Context context(store.rank(), world_size);
      std::vector<float> x(static_cast<std::size_t>(world_size) << 18);  // outlives `world`
      const auto world = comm::make_gloo(context, store, options);
      for (int i = 0;; ++i) {
        const Event done = world->all_reduce(*context.reduce, view(x), ReduceOp::sum);
        if (i == 3) disturb(store.rank());
        done.synchronize();
      }
    });
    EXPECT_LT(Clock::now() - start, comm::GlooOptions{}.timeout / 2);  // no rank waited that long
    return outcome;
  }

  std::string directory_;
};

TEST_F(Launch, EndsWell) {
  const Outcome outcome = launch::run_processes(3, [](Store& store) {
    if (store.rank() < 0 || store.rank() > 2) throw std::runtime_error("no such rank");
    if (store.size() != 3) throw std::runtime_error("no such run");
    const bool here = store.local_rank() == store.rank() && store.local_size() == 3;
    if (!here) throw std::runtime_error("no such rank of this machine");
    // The last rank still has all connections to the others.
    if (store.rank() == 2 && !store.loss(50ms).empty()) throw std::runtime_error(store.loss(0ms));
  });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.message, "");
}

// Each case runs a few times, because the errors of the others depend on the moment of the signal.
TEST_F(Launch, NamesTheRankThatWasKilledInTheMiddleOfACollective) {
  for (int round = 0; round < 12; ++round) {
    const int victim = round % 3;
    const Outcome outcome = run_disturbed(3, {.transport = kTransports[round % 2]}, [&](int rank) {
      if (rank != victim) return;
      std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
      raise(SIGKILL);
    });
    EXPECT_EQ(outcome.exit_code, 128 + SIGKILL);
    EXPECT_EQ(outcome.message.find("rank " + std::to_string(victim) +
                                   " was killed by signal 9 (SIGKILL); if nobody did that"),
              0u)
        << outcome.message;
  }
}

// The test waits for seconds, because it tests a timeout.
TEST_F(Launch, NamesTheRankThatStopped) {
  for (const comm::Transport transport : kTransports) {
    const Outcome outcome = run_disturbed(3, {.timeout = 500ms, .transport = transport},
                                          [](int rank) { rank == 1 ? raise(SIGSTOP) : 0; });
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.message.find("waited 500 ms in vain for rank 1 in "), std::string::npos)
        << outcome.message;
  }
}

TEST_F(Launch, TellsTheCauseAndNotItsConsequences) {
  for (int round = 0; round < 8; ++round) {
    const Outcome outcome = run_disturbed(4, {.transport = kTransports[round % 2]}, [&](int rank) {
      if (rank == round % 4) throw std::runtime_error("the disk is full");
    });
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.message, "rank " + std::to_string(round % 4) + ": the disk is full");
  }
}

// The lost rank's connections may stay open, as on a machine that has stopped.
TEST_F(Launch, InterruptsWhoeverWaitsForAMessageWhenARankIsLost) {
  const std::string heard = directory_ + "/heard";
  const Outcome outcome = launch::run_processes(2, [&](Store& store) {
    Context context(store.rank(), 2);
    const auto world = comm::make_gloo(context, store);
    if (store.rank() == 0) store.set("connected", "");  // now only the news ends its wait
    if (store.rank() == 1) {
      store.get("connected", 10s);
      store.fail("enough");
      for (int i = 0; i < 1000 && !std::filesystem::exists(heard); ++i) {
        std::this_thread::sleep_for(10ms);
      }
      if (!std::filesystem::exists(heard)) throw std::runtime_error("nobody was interrupted");
      return;
    }
    try {
      world->barrier(*context.compute).synchronize();
    } catch (const comm::CommError& e) {
      std::ofstream(heard) << e.what();
    }
  });
  std::filesystem::remove(heard);
  EXPECT_TRUE(outcome.message.starts_with("rank 1 failed: enough (")) << outcome.message;
}

// A rank may be stuck so that only SIGKILL ends it. It first gets SIGTERM, and has two seconds.
TEST_F(Launch, AsksRanksToEndAndThenMakesThem) {
  const auto start = Clock::now();
  const std::string asked = directory_ + "/asked";
  const Outcome outcome = launch::run_processes(2, [&](Store& store) {
    if (store.rank() == 1) {
      store.get("ready", 10s);
      throw std::runtime_error("enough");
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    store.set("ready", "");
    int signal = 0;
    sigwait(&set, &signal);
    std::this_thread::sleep_for(500ms);  // a part of its two seconds
    std::ofstream(asked) << signal;
    while (true) pause();
  });
  EXPECT_EQ(outcome.message, "rank 1: enough");
  EXPECT_LT(Clock::now() - start, 8s);
  EXPECT_TRUE(std::filesystem::remove(asked));
}

TEST_F(Launch, CountsExitCodesAsShellsDo) {
  const auto code_of = [](const std::function<void()>& end) {
    return launch::run_processes(2, [&](Store& store) {
      if (store.rank() == 1) end();
      std::this_thread::sleep_for(store.rank() == 0 ? 100ms : 0ms);
    });
  };
  const Outcome usage = code_of([] { throw UsageError({.what = "--ranks", .got = "fish"}); });
  EXPECT_EQ(usage.exit_code, 2);
  EXPECT_EQ(usage.message, "--ranks: got fish");
  EXPECT_EQ(code_of([] { throw std::runtime_error("x"); }).exit_code, 1);
  const Outcome gone = code_of([] { _exit(0); });
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_EQ(gone.message, "rank 1 ended with exit code 0 in the middle of its work");
  EXPECT_EQ(code_of([] { raise(SIGTERM); }).exit_code, 128 + SIGTERM);
  EXPECT_EQ(code_of([] { raise(SIGINT); }).message, "");  // Ctrl-C reaches children too
}

TEST_F(Launch, WritesOneLineToStderr) {
  ::testing::internal::CaptureStderr();
  const int code = launch::tell(launch::run_processes(3, [](Store& store) {
    Context context(store.rank(), 3);
    const auto world = comm::make_gloo(context, store);
    if (store.rank() == 2) throw std::runtime_error("no more paper");
    world->barrier(*context.compute);
  }));
  EXPECT_EQ(code, 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "nanofsdp: rank 2: no more paper\n");
}

TEST_F(Launch, RefusesAProcessWithThreads) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) std::this_thread::sleep_for(1ms);
  });
  const bool counted = count_threads() > 1;
  if (counted) {
    EXPECT_THROW(launch::run_processes(1, [](Store&) {}), Error);
  }
  stop = true;
  other.join();
  if (!counted) GTEST_SKIP() << "this system does not count threads";
}

// A launcher in a process of its own. Its ranks tell their process ids and then wait.
class Interrupted : public Launch {
 protected:
  static constexpr int kRanks = 3;

  void start() {
    if ((launcher_ = fork()) != 0) return;
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
    _exit(launch::tell(launch::run_processes(kRanks, [&](Store& store) {
      const int rank = store.rank();
      Context context(rank, kRanks);
      const auto world = comm::make_gloo(context, store);
      std::ofstream(pid_file(rank) + ".new") << getpid();
      std::filesystem::rename(pid_file(rank) + ".new", pid_file(rank));
      while (true) pause();
    })));
  }

  std::string pid_file(int rank) const { return directory_ + "/pid." + std::to_string(rank); }

  // Sends the signal when all ranks run. Returns the launcher's wait status.
  int end_launcher(int signal) {
    for (int rank = 0; rank < kRanks; ++rank) {
      while (!std::filesystem::exists(pid_file(rank))) std::this_thread::sleep_for(5ms);
      pid_t pid = 0;
      std::ifstream(pid_file(rank)) >> pid;
      ranks_.push_back(pid);
      std::filesystem::remove(pid_file(rank));
    }
    kill(launcher_, signal);
    int status = 0;
    waitpid(launcher_, &status, 0);
    return status;
  }

  void expect_no_rank_left() {
    const auto deadline = Clock::now() + 5s;
    for (const pid_t rank : ranks_) {
      while (is_running(rank) && Clock::now() < deadline) std::this_thread::sleep_for(5ms);
      EXPECT_FALSE(is_running(rank));
    }
  }

  // A process that has ended counts as ended, even if its new parent has not asked for it yet.
  static bool is_running(pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    return (stat >> number >> name >> state) && state != "Z" && state != "X";
  }

  pid_t launcher_ = 0;
  std::vector<pid_t> ranks_;
};

TEST_F(Interrupted, EndsAllRanksAndLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    start();
    const int status = end_launcher(signal);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    expect_no_rank_left();
    ranks_.clear();
  }
}

TEST_F(Interrupted, KilledLauncherTakesItsRanksAlong) {
  start();
  end_launcher(SIGKILL);
  expect_no_rank_left();
}

}  // namespace
}  // namespace nanofsdp::testing
