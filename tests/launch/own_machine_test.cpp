#if defined(__linux__)
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include <sys/resource.h>

#include "base/platform.h"
#include "launch/launch.h"
#include "launch/party.h"
#include "support/own_machine.h"
#include "support/temporary_directory.h"

// Tests ranks on unusual machines: with a name that becomes known later, without /proc, without a
// network.

namespace nanofsdp::testing {
namespace {

// Another test of this process may have left a thread, and only a process with one thread can fork
// ranks.
class OwnMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    if (count_threads() > 1) GTEST_SKIP() << "a sanitizer's thread: such a process is not forked";
  }
};

TEST_F(OwnMachine, LearnsRankZerosNameWhileRanksLookItUp) {
  const TemporaryDirectory directory;
  const std::string hosts = directory.write("hosts", "127.0.0.1 localhost\n");
  on_own_machine(CLONE_NEWNS, [&]() -> std::string {
    if (!replace("/etc/hosts", hosts)) return "cannot replace /etc/hosts";
    const std::uint16_t port = launch::listen_on("127.0.0.1", 0).local_port();
    std::thread ranks[2];
    for (const int rank : {0, 1}) {
      const Rendezvous r{
          .host = "late.test", .port = port, .rank = rank, .size = 2, .local_size = 2};
      ranks[rank] = std::thread([r] { Store(r).leave(); });
    }
    std::this_thread::sleep_for(100ms);
    std::ofstream(hosts, std::ios::app) << "127.0.0.1 late.test\n";
    for (std::thread& rank : ranks) rank.join();
    return "";
  });
}

TEST_F(OwnMachine, RunsRanksWithoutProc) {
  on_own_machine(CLONE_NEWNS, []() -> std::string {
    if (!replace("/proc")) return "cannot replace /proc";
    if (count_threads() != 1) return "threads are counted all the same";
    if (program_fingerprint() != 0) return "a fingerprint of nothing";
    const auto outcome =
        launch::run_processes(2, [](Store& store) { store.set("of " + number(store.rank()), ""); });
    return outcome.message;
  });
}

// Rank 0 has a connection to each rank. If it cannot open all of them, it says so at once.
TEST_F(OwnMachine, WithTooFewDescriptorsNamesTheLimit) {
  for (const int ranks : {2, 64}) {
    on_own_machine(0, [ranks]() -> std::string {
      const rlimit limit{40, 40};
      if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return "no limit";
      const auto outcome = launch::run_processes(
          ranks, [](Store&) {}, 10s);
      if (ranks == 2) return outcome.message;
      if (outcome.exit_code != 2) return "exit code " + number(outcome.exit_code);
      const bool named =
          outcome.message.starts_with("connections of rank 0: expected descriptors for 64 ranks") &&
          outcome.message.find("got a limit of 40") != std::string::npos &&
          outcome.message.find("ulimit -n") != std::string::npos;
      return named ? "" : outcome.message;
    });
  }
}

// No interface is up, not even lo, so no rank can be reached.
TEST_F(OwnMachine, WithoutANetworkEndsInTime) {
  on_own_machine(CLONE_NEWNET, []() -> std::string {
    const auto begin = std::chrono::steady_clock::now();
    const auto outcome = launch::run_processes(
        2, [](Store&) {}, 300ms);
    if (outcome.exit_code != 1) return "exit code " + number(outcome.exit_code);
    if (outcome.message.find("found nobody at 127.0.0.1:") == std::string::npos) {
      return outcome.message;
    }
    return std::chrono::steady_clock::now() - begin > 5s ? "too late" : "";
  });
}

}  // namespace
}  // namespace nanofsdp::testing
#endif
