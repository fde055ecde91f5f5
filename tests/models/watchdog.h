#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "models/code.h"

namespace models {

/// @file
/// @brief Ends a program that hangs, and prints it.
class Watchdog {
 public:
  explicit Watchdog(const Program& program, std::chrono::seconds patience = std::chrono::minutes(1))
      : thread_([this, program, patience] { watch(program, patience); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(const Program& program, std::chrono::seconds patience) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, patience, [this] { return over_; })) return;
    fmt::print("this program hangs:\n{}", code_of(program));
    std::fflush(stdout);
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace models
