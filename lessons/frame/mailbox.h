#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace lesson {

/// Messages that one rank has sent and the next rank has not received yet. Ranks are threads.
class Mailbox {
 public:
  void put(std::span<const float> message) {
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(message.begin(), message.end());
    changed_.notify_one();
  }

  /// Takes the oldest message. The result is empty if none comes in time: then none was sent, or
  /// all ranks wait for each other.
  std::vector<float> take(std::chrono::seconds patience) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [&] { return !messages_.empty(); })) return {};
    std::vector<float> message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<float>> messages_;
};

}  // namespace lesson
