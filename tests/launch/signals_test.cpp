#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"
#include "launch/launch.h"

// Tests which signals to the launcher end a run. `nohup` starts a program that ignores SIGHUP, and
// a script starts a program that ignores SIGINT if the line ends with `&`.

namespace nanofsdp::testing {
namespace {

constexpr std::array kSignals = {SIGHUP, SIGINT, SIGTERM};

// Starts a launcher that ignores one signal, and sends it another one while its two ranks run. The
// ranks end after that. Returns the launcher's wait status.
int status_after(int ignored, int sent) {
  std::array<int, 2> running{}, go{};
  if (pipe(running.data()) != 0 || pipe(go.data()) != 0) std::abort();
  const pid_t parent = getpid(), launcher = fork();
  if (launcher == 0) {
    die_with_parent(parent);
    for (const int number : kSignals) std::signal(number, number == ignored ? SIG_IGN : SIG_DFL);
    close(go[1]);
    const launch::Outcome outcome = launch::run_processes(2, [&](launch::Store&) {
      std::signal(SIGTERM, SIG_DFL);  // the launcher ends its ranks with this signal
      char byte = 0;
      if (write(running[1], &byte, 1) != 1) std::abort();
      while (::read(go[0], &byte, 1) > 0) {
      }
    });
    _exit(outcome.exit_code);
  }
  char byte = 0;
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(::read(running[0], &byte, 1), 1);
  kill(launcher, sent);
  std::this_thread::sleep_for(std::chrono::milliseconds(sent == ignored ? 100 : 0));
  int status = 0;
  if (sent != ignored) waitpid(launcher, &status, 0);
  close(go[1]);
  if (sent == ignored) waitpid(launcher, &status, 0);
  for (const int end : {running[0], running[1], go[0]}) close(end);
  return status;
}

TEST(Signals, EndARunUnlessTheLauncherIgnoredThemAtItsStart) {
  for (const int ignored : kSignals) {
    for (const int sent : kSignals) {
      const int status = status_after(ignored, sent);
      EXPECT_TRUE(WIFEXITED(status)) << ignored << " " << sent;
      EXPECT_EQ(WEXITSTATUS(status), sent == ignored ? 0 : 128 + sent) << ignored << " " << sent;
    }
  }
}

}  // namespace
}  // namespace nanofsdp::testing
