#include "base/device.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/thread_pool.h"

namespace nanofsdp {

struct Event::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;

  void finish(std::exception_ptr with) {
    const std::lock_guard lock(mutex);
    done = true;
    error = std::move(with);
    changed.notify_all();
  }
};

bool Event::ready() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Event::synchronize() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
}

namespace {

// Runs work at once, on the caller's thread: everything before a recorded point is already done.
class InlineStream final : public Stream {
 public:
  explicit InlineStream(int threads) : pool_(threads) {}
  void enqueue(std::function<void()> work) override { work(); }
  Event record() override { return Event(); }
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}
  int threads() const override { return pool_.threads(); }

 private:
  void parallel_ranges(std::int64_t n, std::int64_t grain, const RangeBody& body) override {
    pool_.run(n, grain, body);
  }
  ThreadPool pool_;
};

// Runs work in order on its own thread. After a failure the rest is skipped, and every event
// recorded later carries the first error.
class ThreadStream final : public Stream {
 public:
  ThreadStream() : thread_([this] { loop(); }) {}

  ~ThreadStream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void enqueue(std::function<void()> work) override {
    push([this, work = std::move(work)] {
      if (error_) return;
      try {
        work();
      } catch (...) {
        error_ = std::current_exception();
      }
    });
  }

  Event record() override {
    auto state = std::make_shared<Event::State>();
    push([this, state] { state->finish(error_); });
    return Event(std::move(state));
  }

  void wait(const Event& event) override {
    enqueue([event] { event.synchronize(); });
  }

  void synchronize() override { record().synchronize(); }

 private:
  void push(std::function<void()> item) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(item));
    }
    changed_.notify_one();
  }

  void loop() {
    while (true) {
      std::function<void()> item;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty()) return;
        item = std::move(queue_.front());
        queue_.pop_front();
      }
      item();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::exception_ptr error_;  // touched by thread_ alone
  std::thread thread_;        // last: starts when the rest is there
};

void require_cpu(Device device) {
  NANOFSDP_CHECK(device == Device::cpu, .what = "stream", .expected = "device cpu", .got = "cuda",
                 .hint = "this build has no CUDA");
}

}  // namespace

std::unique_ptr<Stream> make_compute_stream(Device device, int threads) {
  require_cpu(device);
  return std::make_unique<InlineStream>(threads);
}

std::unique_ptr<Stream> make_communication_stream(Device device) {
  require_cpu(device);
  return std::make_unique<ThreadStream>();
}

}  // namespace nanofsdp
