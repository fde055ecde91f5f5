#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/temporary_directory.h"

namespace nanofsdp::testing {

/// @file
/// @brief The product as a user runs it: a process with arguments, output and an exit code.

/// Environment variables: names and values.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// A running `nanofsdp`, in a directory of its own that is also its TMPDIR.
class Process {
 public:
  Process(const std::filesystem::path& directory, const std::vector<std::string>& args,
          const Variables& environment = {})
      : out_(directory / "stdout"), err_(directory / "stderr") {
    pid_ = fork();
    if (pid_ != 0) return;
    std::vector<std::string> words = {NANOFSDP_BINARY};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    // This test may run with nohup, or behind `&` in a script: then it ignores signals.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
    setenv("TMPDIR", directory.c_str(), 1);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const bool ready = std::freopen(out_.c_str(), "w", stdout) != nullptr &&
                       std::freopen(err_.c_str(), "w", stderr) != nullptr &&
                       chdir(directory.c_str()) == 0;
    if (ready) execv(argv[0], argv.data());
    _exit(127);
  }

  ~Process() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return read_file(out_.string()); }
  std::string err() const { return read_file(err_.string()); }

  /// Returns the exit code, 128 + n for signal n.
  /// @throws std::runtime_error if the process has not ended after `limit`
  int wait(std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < deadline) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw std::runtime_error("still running; stderr: " + err());
  }

  /// Waits until stdout holds `text`.
  void wait_for_output(const std::string& text) const {
    for (int i = 0; i < 6000; ++i) {
      if (out().find(text) != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("no '" + text + "' on stdout; stderr: " + err());
  }

  /// The processes that it has started and that still exist.
  std::vector<pid_t> children() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream stat(entry.path() / "stat");
      std::string pid, name, state;
      pid_t parent = 0;
      if (stat >> pid >> name >> state >> parent && parent == pid_) found.push_back(std::stoi(pid));
    }
    return found;
  }

 private:
  std::filesystem::path out_;
  std::filesystem::path err_;
  pid_t pid_ = -1;
};

/// Runs `nanofsdp` to its end, and expects the exit code `exit_code`. Returns its output: stdout if
/// the code is 0, otherwise the error's text.
inline std::string output_of(const TemporaryDirectory& directory,
                             const std::vector<std::string>& words, int exit_code = 0) {
  Process process(directory.file(""), words);
  EXPECT_EQ(process.wait(std::chrono::seconds(60)), exit_code) << process.err();
  return exit_code == 0 ? process.out() : process.err();
}

}  // namespace nanofsdp::testing
