#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_runtime.h"

// Streams without threads. A thread that waits for a point does the work before it, and the work of
// other streams that must come first. There is one lock, so the device does one thing at a time.

struct CUstream_st {
  std::deque<std::function<bool()>> work{};
  std::thread::id maker = std::this_thread::get_id();
  bool advancing = false;
};

namespace emulation {
namespace {

std::recursive_mutex device;  // guards everything below
CUstream_st default_stream;
std::vector<CUstream_st*> streams;
bool early = false;  // whether the other streams of the waiting thread go first
std::minstd_rand dice;
std::string failure;            // error of device work, in words, until a thread is told
thread_local std::string told;  // the error that this thread was told

double now = 0;  // milliseconds that work has taken

struct Point {
  CUstream_st* stream = nullptr;
  bool passed = true;
  double at = 0;
};

const Point kNever{nullptr, false};

bool is_done(const std::function<bool()>& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    failure = e.what();
    return true;
  }
}

// Does the work of a stream as far as possible, but not beyond `until`.
void advance(CUstream_st& stream, const Point& until = kNever) {
  if (stream.advancing) return;  // a caller further up this stack does its work already
  stream.advancing = true;
  while (!until.passed && !stream.work.empty()) {
    for (CUstream_st* other : streams) {
      if (early && other->maker == std::this_thread::get_id()) advance(*other);
    }
    if (!is_done(stream.work.front())) break;
    stream.work.pop_front();
  }
  stream.advancing = false;
}

bool reach(Point& point) {
  if (!point.passed) advance(*point.stream, point);
  return point.passed;
}

template <class Done>
bool look(const Done& done, bool others_first) {
  const std::lock_guard lock(device);
  const DeviceWork work;
  early = others_first;
  return done();
}

bool toss() {
  const std::lock_guard lock(device);
  return dice() / 1024 % 2 == 0;
}

// Work of other ranks may have to come first.
template <class Done>
cudaError_t wait_until(const Done& done) {
  const bool others_first = toss();
  while (!look(done, others_first)) std::this_thread::sleep_for(std::chrono::microseconds(20));
  const std::lock_guard lock(device);
  told = std::exchange(failure, "");
  if (told.empty() && fails()) return cudaErrorInvalidValue;
  return told.empty() ? cudaSuccess : cudaErrorLaunchFailure;
}

cudaError_t wait_for(CUstream_st& stream) {
  return wait_until([&] { return advance(stream), stream.work.empty(); });
}

CUstream_st& of(cudaStream_t stream) { return stream == nullptr ? default_stream : *stream; }

}  // namespace

void drain() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto done = [] {
    std::size_t moved = default_stream.work.size(), mine = 0;
    advance(default_stream);
    moved -= default_stream.work.size();
    for (CUstream_st* stream : streams) {
      moved += stream->work.size();
      advance(*stream);
      moved -= stream->work.size();
      if (stream->maker == std::this_thread::get_id()) mine += stream->work.size();
    }
    return mine == 0 && moved == 0;
  };
  while (!look(done, false)) {
    if (std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("emulated CUDA: cudaFree waits for ever");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void spend(double ms) {
  const std::lock_guard lock(device);
  now += ms;
}

cudaError_t enqueue(cudaStream_t stream, std::function<bool()> work) {
  static const bool blocking = std::getenv("CUDA_LAUNCH_BLOCKING") != nullptr;
  {
    const std::lock_guard lock(device);
    of(stream).work.push_back(std::move(work));
  }
  return blocking ? wait_for(of(stream)) : cudaSuccess;
}

}  // namespace emulation

struct CUevent_st {
  std::shared_ptr<emulation::Point> point = std::make_shared<emulation::Point>();
};

using emulation::enqueue;

const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorLaunchFailure) return emulation::told.c_str();
  return error == cudaErrorInitializationError ? "initialization error" : "emulated error";
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (emulation::fails()) return cudaErrorInvalidValue;
  return enqueue(stream, [=] { return emulation::set(memory, value, bytes), true; });
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}

// Memory that is not the device's is pageable, and the driver has copied it when this returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (emulation::fails()) return cudaErrorInvalidValue;
  const bool sends = emulation::is_device(to) && !emulation::is_device(from);
  const bool fetches = emulation::is_device(from) && !emulation::is_device(to);
  if (sends) {
    const auto* first = static_cast<const std::byte*>(from);
    return enqueue(stream, [=, read = std::vector<std::byte>(first, first + bytes)] {
      return std::memcpy(to, read.data(), bytes), true;
    });
  }
  const cudaError_t error = enqueue(stream, [=] { return std::memcpy(to, from, bytes), true; });
  return fetches ? cudaStreamSynchronize(stream) : error;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (emulation::fails()) return cudaErrorInvalidValue;
  ++emulation::alive;
  const std::lock_guard lock(emulation::device);
  emulation::streams.push_back(*stream = new CUstream_st);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(emulation::device);
  std::erase(emulation::streams, stream);
  --emulation::alive;
  return delete stream, emulation::fails() ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return emulation::wait_for(emulation::of(stream));
}
// Waits only for the default stream: no caller may rely on more, and least of all between ranks.
cudaError_t cudaDeviceSynchronize() { return cudaStreamSynchronize(nullptr); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (emulation::fails()) return cudaErrorInvalidValue;
  return enqueue(stream, [point = event->point] { return emulation::reach(*point); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (emulation::fails()) return cudaErrorInvalidValue;
  ++emulation::alive;
  return *event = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event != nullptr) --emulation::alive;
  return delete event, emulation::fails() ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (emulation::fails()) return cudaErrorInvalidValue;
  const auto point =
      std::make_shared<emulation::Point>(emulation::Point{&emulation::of(stream), false});
  event->point = point;
  return enqueue(stream, [point] {
    point->at = emulation::now;
    return point->passed = true;
  });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->point->passed || !end->point->passed) return cudaErrorNotReady;
  if (emulation::fails()) return cudaErrorInvalidValue;
  return *ms = static_cast<float>(end->point->at - begin->point->at), cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const bool passed = emulation::look([&] { return emulation::reach(*event->point); }, false);
  if (!passed) return cudaErrorNotReady;
  return emulation::fails() ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return emulation::wait_until([&] { return emulation::reach(*event->point); });
}
