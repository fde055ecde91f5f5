#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/device.h"

namespace nanofsdp {

/// @file
/// @brief Threads that share one loop: the width of the CPU's compute stream.
///
/// Our own 60 lines instead of OpenMP: both compilers have it without another package, ranks may be
/// threads, and the thread sanitizer understands it. Workers spin a while for the next loop, as
/// operators follow each other within microseconds, then sleep.

/// A fixed number of threads, which work for the one thread that calls run().
class ThreadPool {
 public:
  /// @param threads including the caller, at least 1
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }  ///< including the caller

  /// Cuts [0, n) into equal ranges and runs them, the first on the caller. Returns when all are
  /// done. A range that throws must not: bodies are arithmetic.
  void run(std::int64_t n, std::int64_t grain, const RangeBody& body);

 private:
  ThreadPool() = default;
  void work(int worker);
  void run_range(int index) const;

  const RangeBody* body_ = nullptr;
  std::int64_t n_ = 0;
  std::int64_t chunk_ = 0;
  std::atomic<std::uint32_t> round_{0};    // a new value starts a loop
  std::atomic<std::uint32_t> pending_{0};  // workers that have not finished it
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace nanofsdp
