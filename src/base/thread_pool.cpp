#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>

namespace nanofsdp {
namespace {

// This time is longer than the gap between two operators, and shorter than a scheduler tick.
// Workers look at a clock instead of counting pauses, because one pause takes 5 nanoseconds on one
// processor and 50 on another.
constexpr std::chrono::microseconds kSpin{50};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `old`: spins first, then sleeps.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < until);
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

// It delegates to another constructor. So if a thread cannot be started, the destructor runs and
// ends those that were started.
ThreadPool::ThreadPool(int threads) : ThreadPool() {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t n, std::int64_t grain, const RangeBody& body) {
  const auto width = std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, threads());
  if (width == 1 || running_.exchange(true)) return body(0, n);
  errors_.assign(static_cast<std::size_t>(threads()), nullptr);
  body_ = &body, n_ = n;
  chunk_ = (n + width - 1) / width;
  pending_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  run_range(0);
  while (const auto left = pending_.load(std::memory_order_acquire)) wait_while(pending_, left);
  running_ = false;
  for (const std::exception_ptr& error : errors_)
    if (error) std::rethrow_exception(error);
}

void ThreadPool::run_range(int index) try {
  const std::int64_t begin = std::min(n_, index * chunk_), end = std::min(n_, begin + chunk_);
  if (begin < end) (*body_)(begin, end);
} catch (...) {
  errors_[static_cast<std::size_t>(index)] = std::current_exception();
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    wait_while(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    if (stop_) return;
    run_range(worker);
    if (pending_.fetch_sub(1, std::memory_order_release) == 1) pending_.notify_all();
  }
}

}  // namespace nanofsdp
