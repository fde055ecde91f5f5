#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace nanofsdp {

/// @file
/// @brief Limits on the time that a rank waits for another rank. Only time in which this process
/// runs counts.

/// A limit on one wait. A rank that waits looks at its limit again and again, and sleeps for at
/// most `kLook` between two looks. At most `2 * kLook` count between two looks. So a process that
/// is stopped, by Ctrl-Z or with its whole job, does not use up its limit: it does not look.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLook{100};  ///< the time from one look to the next
  /// The longest timeout.
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);

  /// Begins the wait.
  /// @param limit at most kLongest counts
  explicit Patience(std::chrono::milliseconds limit) : rest_(std::min(limit, kLongest)) {}

  /// Looks at the time. @returns whether the wait has reached the limit
  bool is_over() {
    const Clock::time_point now = Clock::now();
    rest_ -= std::min<Clock::duration>(now - std::exchange(last_, now), 2 * kLook);
    return rest_ <= Clock::duration();
  }

 private:
  Clock::duration rest_;
  Clock::time_point last_ = Clock::now();
};

/// Counts the things that a rank, or the threads of a run, do alone at this moment. A wait for them
/// counts only the time in which they do no such thing.
class Work {
 public:
  /// Notes that something begins (1) or ends (-1). @returns how many things are going on then
  int add(int begins) {
    changed_ = Patience::Clock::now();
    return under_way_ += begins;
  }
  /// For how long no such thing has been going on.
  std::chrono::milliseconds idle() const {
    if (under_way_ > 0) return {};
    return std::chrono::floor<std::chrono::milliseconds>(Patience::Clock::now() - changed_.load());
  }

 private:
  std::atomic<int> under_way_{0};
  std::atomic<Patience::Clock::time_point> changed_{Patience::Clock::now()};
};

}  // namespace nanofsdp
