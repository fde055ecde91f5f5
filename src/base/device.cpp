#include "base/device.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <thread>

#include "base/check.h"
#include "base/cuda.h"
#include "base/platform.h"
#include "base/thread_pool.h"

namespace nanofsdp {

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void Stream::note(double& when) {
  enqueue([&when] { when = now_seconds(); });
}

namespace {

using namespace std::chrono_literals;

// A point in the work of a thread's stream.
class ThreadEvent final : public Event::State {
 public:
  void finish(const std::exception_ptr& e) { e ? end_.set_exception(e) : end_.set_value(); }
  bool ready() override { return passed_.wait_for(0s) == std::future_status::ready; }
  void synchronize() override { passed_.get(); }

 private:
  std::promise<void> end_;
  const std::shared_future<void> passed_ = end_.get_future().share();
};

// Runs work at once, on the caller's thread, so all work before a recorded point is done already.
class InlineStream : public Stream {
 public:
  using Stream::enqueue;
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
  ThreadPool pool_;  // only the thread that runs the work uses it
};

// Runs the work in order on a thread of its own. After work has thrown, the stream skips the rest,
// and every event that is recorded later carries the first error.
class ThreadStream final : public InlineStream {
 public:
  using Stream::enqueue;
  explicit ThreadStream(int threads) : InlineStream(threads), thread_([this] { loop(); }) {}

  ~ThreadStream() override {
    push({});
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
    auto event = std::make_shared<ThreadEvent>();
    push([this, event] { event->finish(error_); });
    return Event(std::move(event));
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
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty(); });
      const std::function<void()> item = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!item) return;  // an empty item ends the thread
      item();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::exception_ptr error_;  // only thread_ uses it
  std::thread thread_;        // the last member, because it starts when the others exist
};

constexpr std::align_val_t kAlignment{64};

void require(Device device) {
  const std::string problem = why_not(device);
  NANOFSDP_CHECK(problem.empty(), .what = "device cuda", .expected = "a GPU", .got = problem,
                 .hint = "use --device=cpu");
}

}  // namespace

std::string why_not(Device device) {
  if (device == Device::cpu) return "";
  if (is_simulated(device)) return "a simulated one has streams of its own (plan/simulated.h)";
  if constexpr (kCuda) return cuda::why_not();
  return "this build has no CUDA";
}

Device use_device(Device device, int local_rank) {
  require(device);
  if constexpr (kCuda) {
    if (device == Device::cuda) cuda::use(local_rank);
  }
  return device;
}

void* allocate_memory(Device device, std::size_t bytes) {
  NANOFSDP_RETURN_ON_CUDA(device, allocate(bytes));
  // Rounding a size near the end of its type would give a small one.
  void* memory = bytes > PTRDIFF_MAX ? nullptr : ::operator new(bytes, kAlignment, std::nothrow);
  NANOFSDP_CHECK(memory != nullptr, .what = "memory", .expected = fmt::format("{} bytes", bytes),
                 .got = "less", .hint = "use more ranks or less batch");
  return std::memset(memory, 0, bytes);
}

void release_memory(Device device, void* memory) noexcept {
  if (is_simulated(device)) return;
  NANOFSDP_RETURN_ON_CUDA(device, release(memory));
  ::operator delete(memory, kAlignment);
}

std::unique_ptr<Stream> make_compute_stream(Device device, int threads) {
  require(device);
  NANOFSDP_RETURN_ON_CUDA(device, make_stream(cuda::Priority::normal));
  return std::make_unique<InlineStream>(threads);
}

std::unique_ptr<Stream> make_communication_stream(Device device, int threads) {
  require(device);
  NANOFSDP_RETURN_ON_CUDA(device, make_stream(cuda::Priority::high));
  return std::make_unique<ThreadStream>(threads);
}

}  // namespace nanofsdp
