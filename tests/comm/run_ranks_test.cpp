#include "comm/run_ranks.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/platform.h"
#include "comm/rank_data.h"
#include "launch/launch.h"
#include "launch/socket.h"
#include "support/ranks.h"

// One call turns a program into ranks: processes, threads, this process alone, or one of the
// processes that a launcher has started.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::RanksOptions;

/// Throws unless there are `ranks` ranks and their sum is right.
void require_sum(int ranks, Context& context, Communicator& world) {
  std::vector<float> x(static_cast<std::size_t>(ranks), static_cast<float>(world.rank() + 1));
  world.all_reduce(*context.compute, view(x), comm::ReduceOp::sum).synchronize();
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  if (world.size() != ranks || context.world_size != ranks || x.back() != sum) {
    throw std::runtime_error("another sum");
  }
}

comm::RankBody sum_of(int ranks) {
  return [ranks](Context& context, std::unique_ptr<Communicator> world) {
    require_sum(ranks, context, *world);
  };
}

struct Ended {
  int exit_code;
  std::string said;
};
Ended run(const RanksOptions& options, const comm::RankBody& body) {
  ::testing::internal::CaptureStderr();
  const int exit_code = comm::run_ranks(options, body);
  return {exit_code, ::testing::internal::GetCapturedStderr()};
}

TEST(RunRanks, AreThreads) {
  std::atomic<int> bodies = 0;
  const Ended ended = run({.ranks = 3, .threads = 2, .backend = comm::Backend::local},
                          [&](Context& context, std::unique_ptr<Communicator> world) {
                            require_sum(3, context, *world);
                            bodies += context.compute->threads();
                          });
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.said, "");
  EXPECT_EQ(bodies, 6);
}

// A thread waits for another one until `timeout` is over, which is one second here.
TEST(RunRanks, AreThreadsThatWaitForTheirTimeout) {
  std::atomic<bool> gave_up = false;
  const auto body = [&](Context& context, std::unique_ptr<Communicator> world) {
    using namespace std::chrono_literals;
    if (context.rank == 0) {
      EXPECT_THROW(require_sum(2, context, *world), comm::CommError);
      gave_up = true;
    }
    for (int i = 0; i < 100 && !gave_up; ++i) std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(gave_up);
  };
  run({.ranks = 2, .timeout = 1, .backend = comm::Backend::local}, body);
}

TEST(RunRanks, OneIsThisProcess) {
  int bodies = 0;
  const auto body = [&](Context& context, std::unique_ptr<Communicator> world) {
    require_sum(1, context, *world);
    ++bodies;
  };
  EXPECT_EQ(run({}, body).exit_code, 0);
  EXPECT_EQ(bodies, 1);
}

// If several threads fail by themselves, the program tells one error: that of the lowest rank.
TEST(RunRanks, ThatAreThreadsTellTheErrorOfTheLowest) {
  ::testing::internal::CaptureStderr();
  const int code =
      comm::run_ranks({.ranks = 3, .backend = comm::Backend::local},
                      [](Context& context, std::unique_ptr<comm::Communicator>) {
                        if (context.rank > 0)
                          throw std::runtime_error("of rank " + std::to_string(context.rank));
                      });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "nanofsdp: of rank 1\n");
}

TEST(RunRanks, ThatFailEndWithOneLine) {
  const auto wrong = [](Context& context, std::unique_ptr<Communicator> world) {
    if (context.rank == 1) throw UsageError({.what = "rows", .expected = "7", .got = "8"});
    require_sum(2, context, *world);
  };
  const Ended threads = run({.ranks = 2, .backend = comm::Backend::local}, wrong);
  EXPECT_EQ(threads.exit_code, 2);
  EXPECT_EQ(threads.said, "nanofsdp: rows: expected 7, got 8\n");
  EXPECT_EQ(run({}, [](Context&, auto) { throw std::runtime_error("no"); }).exit_code, 1);
#ifndef NANOFSDP_TSAN  // the thread sanitizer does not see inside Gloo
  const Ended processes = run({.ranks = 2}, wrong);
  EXPECT_EQ(processes.exit_code, 2);
  EXPECT_EQ(processes.said, threads.said);
#endif
}

// NCCL connects GPUs, and Gloo connects the host's memory. This holds with and without a GPU.
TEST(RunRanks, AreConnectedByWhatReachesTheirMemory) {
  const Ended nccl = run({.ranks = 2, .backend = comm::Backend::nccl}, sum_of(2));
  EXPECT_EQ(nccl.exit_code, 2);
  EXPECT_EQ(nccl.said, "nanofsdp: backend nccl: expected device cuda, got cpu\n");
  const Ended gloo =
      run({.ranks = 2, .backend = comm::Backend::gloo, .device = Device::cuda}, sum_of(2));
  EXPECT_EQ(gloo.exit_code, 2);
  EXPECT_EQ(gloo.said, "nanofsdp: backend gloo: expected device cpu, got cuda\n");
}

// The ranks on one machine share its cores. If their number is unknown, all ranks of the run count.
TEST(RunRanks, ShareTheCoresOfTheirMachine) {
  const int cores = count_cores();
  EXPECT_EQ(comm::threads_per_rank({.ranks = 2 * cores}, 1), cores);
  EXPECT_EQ(comm::threads_per_rank({.ranks = 1}, cores), 1);
  EXPECT_EQ(comm::threads_per_rank({.ranks = 1}, 0), cores);
  EXPECT_EQ(comm::threads_per_rank({.ranks = 2 * cores}, 0), 1);
  EXPECT_EQ(comm::threads_per_rank({.ranks = 1, .threads = cores + 1}, cores), cores + 1);
}

// `taskset` or a container may allow the ranks one core of many.
TEST(RunRanks, ShareOnlyTheCoresThatTheyMayUse) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  int threads = 0;
  const auto count = [&](Context& context, auto) { threads = context.compute->threads(); };
  EXPECT_EQ(run({}, count).exit_code, 0);
  sched_setaffinity(0, sizeof all, &all);
  EXPECT_EQ(threads, 1);
}

#ifndef NANOFSDP_TSAN

TEST(RunRanks, AreProcesses) {
  int bodies = 0;
  const Ended ended = run({.ranks = 3}, [&](Context& context, std::unique_ptr<Communicator> world) {
    require_sum(3, context, *world);
    ++bodies;
  });
  EXPECT_EQ(ended.exit_code, 0) << ended.said;
  EXPECT_EQ(bodies, 0) << "what a rank writes is its own";
}

/// The exit code of two processes that a launcher has made ranks; both must have the same.
int exit_code_under_a_launcher(const RanksOptions& options, const comm::RankBody& body) {
  const std::string port = std::to_string(launch::listen_on("127.0.0.1", 0).local_port());
  const launch::Outcome outcome = launch::run_processes(2, [&](launch::Store& store) {
    for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
             {"RANK", std::to_string(store.rank())},
             {"WORLD_SIZE", "2"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"MASTER_PORT", port},
             {"NANOFSDP_TOKEN", "sesame"}}) {
      setenv(name, value.c_str(), 1);
    }
    const int exit_code = comm::run_ranks(options, body);
    if (exit_code != 0) throw std::runtime_error("exit code " + std::to_string(exit_code));
  });
  if (outcome.exit_code == 0) return 0;
  return outcome.message.back() - '0';
}

// The launcher's number of ranks counts, not the program's.
TEST(RunRanks, JoinThoseThatALauncherHasStarted) {
  EXPECT_EQ(exit_code_under_a_launcher({.ranks = 5}, sum_of(2)), 0);
}

TEST(RunRanks, AreNoThreadsUnderALauncher) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code_under_a_launcher({.backend = comm::Backend::local}, sum_of(2)), 2);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("backend local: expected ranks that are threads"), said.npos) << said;
}

// The program also does not ask for a GPU that the backend could not use.
TEST(RunRanks, AreRefusedUnderALauncherAsElsewhere) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code_under_a_launcher({.device = Device::cuda}, sum_of(2)), 2);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("backend gloo: expected device cpu, got cuda"), said.npos) << said;
}

// The requested transport reaches the ranks, whichever launcher starts them.
TEST(RunRanks, TalkOverTheTransportThatWasAskedFor) {
  for (const auto& [transport, said] :
       {std::pair(comm::Transport::gloo, "TCP"), {comm::Transport::shared, "shared memory"}}) {
    const auto require = [said = said](Context& context, std::unique_ptr<Communicator> world) {
      if (!context.transport.starts_with(said)) throw std::runtime_error(context.transport);
      require_sum(2, context, *world);
    };
    const Ended ended = run({.ranks = 2, .transport = transport}, require);
    EXPECT_EQ(ended.exit_code, 0) << ended.said;
    EXPECT_EQ(exit_code_under_a_launcher({.transport = transport}, require), 0);
  }
}

TEST(RunRanks, ComputeWithAsManyThreadsAsWereAskedFor) {
  const auto require = [](Context& context, std::unique_ptr<Communicator>) {
    if (context.compute->threads() != 3) throw std::runtime_error("other threads");
  };
  EXPECT_EQ(run({.ranks = 2, .threads = 3}, require).exit_code, 0);
  EXPECT_EQ(run({.threads = 3}, require).exit_code, 0);
  EXPECT_EQ(exit_code_under_a_launcher({.threads = 3}, require), 0);
}

TEST(RunRanks, AreProcessesThatWaitForTheirTimeout) {
  for (const auto transport : {comm::Transport::gloo, comm::Transport::shared}) {
    const Ended ended = run({.ranks = 2, .timeout = 1, .transport = transport},
                            [&](Context& context, std::unique_ptr<Communicator> world) {
                              using namespace std::chrono_literals;
                              if (context.rank == 1) std::this_thread::sleep_for(20s);
                              require_sum(2, context, *world);
                            });
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_NE(ended.said.find("rank 0 waited 1000 ms in vain for rank 1"), ended.said.npos)
        << ended.said;
  }
}

// Rank 1 of 2 is alone. It waits for five timeouts, and not for the default time.
TEST(RunRanks, GiveUpWhereNobodyComesAfterFiveTimeouts) {
  using Clock = std::chrono::steady_clock;
  const std::string port = std::to_string(launch::listen_on("127.0.0.1", 0).local_port());
  ::testing::internal::CaptureStderr();
  const auto start = Clock::now();
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] :
         std::initializer_list<std::pair<const char*, std::string>>{{"RANK", "1"},
                                                                    {"WORLD_SIZE", "2"},
                                                                    {"MASTER_ADDR", "127.0.0.1"},
                                                                    {"MASTER_PORT", port},
                                                                    {"NANOFSDP_TOKEN", "sesame"}}) {
      setenv(name, value.c_str(), 1);
    }
    _exit(comm::run_ranks({.timeout = 1}, sum_of(2)));
  }
  int status = 0;
  waitpid(child, &status, 0);
  const std::chrono::duration<double> took = Clock::now() - start;
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_GE(took.count(), 4.9);
  EXPECT_LT(took.count(), 30);
  EXPECT_NE(said.find("rank 1 found nobody at 127.0.0.1:" + port + " in 5 s"), said.npos) << said;
}

// The same holds for ranks that are started here: if the loopback interface is down, no rank
// reaches rank 0.
TEST(RunRanks, GiveUpWhereTheyCannotConnectAfterFiveTimeouts) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(77);  // a network of its own, which is down
    _exit(comm::run_ranks({.ranks = 2, .timeout = 1}, sum_of(2)));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "only root has networks to give";
  EXPECT_GT(WEXITSTATUS(status), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40));
}

#endif

}  // namespace
}  // namespace nanofsdp::testing
