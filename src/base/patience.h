#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace nanofsdp {

/// @file
/// @brief How long to wait for another rank, in time in which this process runs.

/// A limit on one wait. A rank that waits looks at it again and again, and sleeps for `kLook` at
/// most. Between two looks at most `2 * kLook` count: a process that is stopped, by Ctrl-Z or with
/// its whole job, does not look.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLook{100};  ///< from one look to the next
  static constexpr std::chrono::hours kLongest{24};       ///< the longest timeout

  /// The wait begins now.
  explicit Patience(Clock::duration limit) : rest_(limit) {}

  /// A look: whether the wait has reached the limit.
  bool is_over() {
    const Clock::time_point now = Clock::now();
    rest_ -= std::min<Clock::duration>(now - std::exchange(last_, now), 2 * kLook);
    return rest_ <= Clock::duration();
  }

 private:
  Clock::duration rest_;
  Clock::time_point last_ = Clock::now();
};

/// What a rank, or the threads of a run, do alone. A wait for them counts only the time in which
/// they do nothing of that kind.
class Work {
 public:
  /// Something begins (1), or ends (-1). @returns how many things are under way then
  int add(int begins) {
    changed_ = Patience::Clock::now();
    return under_way_ += begins;
  }
  /// For how long nothing has been under way.
  std::chrono::milliseconds idle() const {
    if (under_way_ > 0) return {};
    return std::chrono::floor<std::chrono::milliseconds>(Patience::Clock::now() - changed_.load());
  }

 private:
  std::atomic<int> under_way_{0};
  std::atomic<Patience::Clock::time_point> changed_{Patience::Clock::now()};
};

}  // namespace nanofsdp
