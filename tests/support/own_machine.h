#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nanofsdp::testing {

/// @file
/// @brief A machine that a test may change: a process with its own files, or its own network.

/// Puts `source` in the place of a file or folder of this machine. Without `source`, a folder
/// becomes empty.
inline bool replace(const std::string& target, const std::string& source = "") {
  const bool folder = source.empty();
  return mount(folder ? "none" : source.c_str(), target.c_str(), folder ? "tmpfs" : nullptr,
               folder ? 0 : MS_BIND, nullptr) == 0;
}

/// Runs `body` in a child process with its own namespaces: CLONE_NEWNS for files, CLONE_NEWNET for
/// a network without an interface that is up. The body returns an error, or nothing. The test is
/// skipped if the system does not allow that.
inline void on_own_machine(int namespaces, const std::function<std::string()>& body) {
  constexpr int kSkipped = 77;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int of_user = geteuid() == 0 ? 0 : CLONE_NEWUSER;
    const bool alone = unshare(namespaces | of_user) == 0;
    const bool files = (namespaces & CLONE_NEWNS) == 0 ||
                       mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!alone || !files) _exit(kSkipped);
    std::string wrong;
    try {
      wrong = body();
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    _exit(wrong.empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) {
    GTEST_SKIP() << "no namespaces for this user";
  }
  EXPECT_EQ(status, 0);
}

}  // namespace nanofsdp::testing
