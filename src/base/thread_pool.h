#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "base/device.h"

namespace nanofsdp {

/// @file
/// @brief Threads that share one loop. The CPU's compute stream uses them.
///
/// These are 60 lines of our own instead of OpenMP. They need no further package with either
/// compiler, they work when ranks are threads, and the thread sanitizer understands them. Operators
/// follow each other within microseconds, so workers first spin while they wait for the next loop,
/// and sleep only later.

/// A fixed number of threads that work for the thread that calls run().
class ThreadPool {
 public:
  /// @param threads at least 1; the caller is one of them
  explicit ThreadPool(int threads);
  ~ThreadPool();

  /// The number of threads; the caller is one of them.
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Cuts [0, n) into equal ranges and runs them all; the caller runs the first. Returns when all
  /// ranges are done. While a call is running, another one, from its body or from another thread,
  /// runs all of its own [0, n) on the thread that made it.
  /// @throws what the body threw in the first range in which it threw, after all ranges are done
  void run(std::int64_t n, std::int64_t grain, const RangeBody& body);

 private:
  ThreadPool() = default;
  void work(int worker);
  void run_range(int index);

  const RangeBody* body_ = nullptr;
  std::int64_t n_ = 0, chunk_ = 0;
  std::atomic<std::uint32_t> round_{0};    // changes when a loop begins
  std::atomic<std::uint32_t> pending_{0};  // workers that have not finished the loop
  std::atomic<bool> stop_{false}, running_{false};
  std::vector<std::exception_ptr> errors_;  // the exception of each range
  std::vector<std::thread> workers_;
};

}  // namespace nanofsdp
