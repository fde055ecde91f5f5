#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include <sys/resource.h>

#include "comm/run_ranks.h"
#include "launch/launch.h"

// The launcher says in words how a rank ended, whatever signal or exception ended it.

namespace nanofsdp::ends_test {
namespace {

// Signals that end a process unless it handles them (POSIX's default actions).
constexpr int kDeadly[] = {SIGABRT, SIGALRM, SIGBUS,  SIGFPE,    SIGHUP,  SIGILL, SIGINT,
                           SIGKILL, SIGPIPE, SIGPROF, SIGQUIT,   SIGSEGV, SIGSYS, SIGTERM,
                           SIGTRAP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ};

TEST(Ends, OfASignalAreNamedAndABugOnlyIfTheyAreOne) {
  for (const int number : kDeadly) {
    const launch::Outcome outcome = launch::run_processes(1, [&](launch::Store&) {
      const rlimit none{};
      setrlimit(RLIMIT_CORE, &none);
      std::signal(number, SIG_DFL);
      raise(number);
    });
    EXPECT_EQ(outcome.exit_code, 128 + number);
    // Ctrl-C is the user's, and a closed pipe is the reader's.
    const bool quiet = number == SIGINT || number == SIGPIPE;
    const std::string name = " was killed by signal " + std::to_string(number) + " (SIG";
    EXPECT_EQ(outcome.message.empty(), quiet) << outcome.message;
    EXPECT_EQ(outcome.message.find(name) != std::string::npos, !quiet) << outcome.message;
    const bool bug = number == SIGSEGV || number == SIGABRT || number == SIGFPE || number == SIGILL;
    EXPECT_EQ(outcome.message.find("a bug") != std::string::npos, bug) << outcome.message;
    const std::map<int, std::string> hints = {{SIGTERM, "somebody ended it"},
                                              {SIGXCPU, "`ulimit -t`"},
                                              {SIGBUS, "/dev/shm"},
                                              {SIGUSR1, "schedulers"},
                                              {SIGUSR2, "schedulers"}};
    const auto hint = hints.find(number);
    const std::string expected = hint == hints.end() ? "" : hint->second;
    EXPECT_NE(outcome.message.find(expected), std::string::npos) << outcome.message;
  }
}

struct Strange {};

// A body may throw any object. In every kind of ranks, one line says so.
TEST(Ends, OfWhateverIsThrownAreOneLine) {
  using comm::Backend;
  const struct {
    void (*thrown)();
    const char* words;
  } cases[] = {
      {[] { throw 42; }, "an exception that is no std::exception"},
      {[] { throw "text"; }, "an exception that is no std::exception"},
      {[] { throw Strange(); }, "an exception that is no std::exception"},
      {[] { throw std::bad_alloc(); }, "memory ran out; use fewer ranks"},
      {[] { throw std::bad_array_new_length(); }, "memory ran out; use fewer ranks"},
      {[] { throw std::system_error(make_error_code(std::errc::resource_unavailable_try_again)); },
       "a thread could not be started; use fewer"},
      {[] { throw std::system_error(make_error_code(std::errc::io_error), "so"); }, "so: "},
      {[] { throw std::runtime_error("so"); }, "so"},
  };
  for (const auto& [thrown, words] : cases) {
    const auto body = [thrown = thrown](int rank) { rank == 0 ? thrown() : void(); };
    for (const int ranks : {1, 2}) {
      for (const Backend backend : {Backend::local, comm::default_backend()}) {
        ::testing::internal::CaptureStderr();
        const int exit_code = comm::run_ranks(
            {.ranks = ranks, .threads = 1, .backend = backend},
            [&](Context& context, std::unique_ptr<comm::Communicator>) { body(context.rank); });
        const std::string said = ::testing::internal::GetCapturedStderr();
        EXPECT_EQ(exit_code, 1) << said;
        EXPECT_NE(said.find(words), std::string::npos) << said;
        EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
      }
    }
    const launch::Outcome outcome =
        launch::run_processes(2, [&](launch::Store& store) { body(store.rank()); });
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.message.find(std::string("rank 0: ") + words), 0u) << outcome.message;
  }
}

}  // namespace
}  // namespace nanofsdp::ends_test
