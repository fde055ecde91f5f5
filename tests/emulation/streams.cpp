#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "cuda_runtime.h"

// Streams without threads: whoever waits for a point does the work before it, also what another
// stream has to do first. One lock for all, so the device does one thing at a time.

struct CUstream_st {
  std::deque<std::function<bool()>> work;
  bool advancing = false;
};

namespace emulation {
namespace {

std::recursive_mutex device;
std::atomic<bool> late{false};

struct Point {
  CUstream_st* stream = nullptr;
  bool passed = true;
};

const Point kNever{nullptr, false};

// As far as it goes, but no farther than `until`.
void advance(CUstream_st& stream, const Point& until = kNever) {
  if (stream.advancing) return;  // further up this stack, where it waits for the one that asks
  stream.advancing = true;
  try {
    while (!until.passed && !stream.work.empty() && stream.work.front()()) stream.work.pop_front();
  } catch (...) {
    stream.work.clear();
    stream.advancing = false;
    throw;
  }
  stream.advancing = false;
}

bool reach(Point& point) {
  if (!point.passed) advance(*point.stream, point);
  return point.passed;
}

// Others may have to come first.
template <class Done>
cudaError_t wait_until(const Done& done) {
  while (true) {
    {
      const std::lock_guard lock(device);
      if (done()) return cudaSuccess;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace

void enqueue(cudaStream_t stream, std::function<bool()> work) {
  const std::lock_guard lock(device);
  stream->work.push_back(std::move(work));
  if (!late) advance(*stream);
}

void be_late() { late = true; }

}  // namespace emulation

struct CUevent_st {
  std::shared_ptr<emulation::Point> point = std::make_shared<emulation::Point>();
};

using emulation::enqueue;

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] { return std::memset(memory, value, bytes), true; });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  enqueue(stream, [=] { return std::memcpy(to, from, bytes), true; });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return *stream = new CUstream_st, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return emulation::wait_until([&] { return emulation::advance(*stream), stream->work.empty(); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  enqueue(stream, [point = event->point] { return emulation::reach(*point); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto point = std::make_shared<emulation::Point>(emulation::Point{stream, false});
  event->point = point;
  enqueue(stream, [point] { return point->passed = true; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(emulation::device);
  return emulation::reach(*event->point) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return emulation::wait_until([&] { return emulation::reach(*event->point); });
}
