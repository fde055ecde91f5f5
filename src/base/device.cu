#include <cuda_runtime.h>
#include <dlfcn.h>

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/cuda.h"
#include "base/device.cuh"

// The name of the driver's library. The emulation of CUDA has a library of its own.
#ifndef NANOFSDP_DRIVER
#define NANOFSDP_DRIVER "libcuda.so.1"
#endif

namespace nanofsdp::cuda {

void check(cudaError_t error, const char* what) {
  NANOFSDP_CHECK(
      error == cudaSuccess, .what = what, .expected = "success from CUDA",
      .got = std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")");
}

CudaEvent::CudaEvent(unsigned flags) {
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made, flags), "making an event");
  event_.reset(made);
}

void CudaEvent::record(cudaStream_t stream) {
  check(cudaEventRecord(native(), stream), "recording an event");
}

bool CudaEvent::ready() {
  const cudaError_t state = cudaEventQuery(native());
  if (state != cudaErrorNotReady) check(state, "work before an event");
  return state == cudaSuccess;
}

void CudaEvent::synchronize() {
  behind.synchronize();
  check(cudaEventSynchronize(native()), "work before an event");
}

bool LateEvent::is_on_stream() {
  const std::lock_guard lock(mutex_);
  if (!recorded_ && is_launched()) record(stream_), recorded_ = true;
  return recorded_;
}

void LateEvent::wait_for_device() {
  const std::lock_guard lock(mutex_);
  if (recorded_) return CudaEvent::synchronize();
  check(cudaStreamSynchronize(stream_), "work on a stream");
}

namespace {

// The nanoseconds of a clock that all multiprocessors share.
__device__ long long now() {
#ifdef __CUDACC__
  long long time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
#else
  return emulation::nanoseconds();
#endif
}

__global__ void wait_for(long long nanoseconds) {
  const long long end = now() + nanoseconds;
  while (now() < end) __nanosleep(500);  // leaves the multiprocessor to other kernels
}

// The caller's thread launches the work, which runs on the device in order.
class CudaStream final : public Stream {
 public:
  using Stream::enqueue;
  explicit CudaStream(int priority) {
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
          "making a stream");
  }
  ~CudaStream() override {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  Device device() const override { return Device::cuda; }
  void enqueue(std::function<void()> work) override { work(); }
  // If the last work of the stream is not launched yet, there is nothing behind it, so its own
  // event is the point.
  Event record() override {
    if (late_) return Event(late_);
    const auto point = std::make_shared<CudaEvent>(native());
    point->behind = last_;
    return Event(point);
  }

  void wait(const Event& event) override {
    auto* const late = dynamic_cast<LateEvent*>(event.state());
    if (late != nullptr) late->wait_for_launch();
    const auto* const point = dynamic_cast<const CudaEvent*>(event.state());
    // A device cannot wait for an event of a thread, so the host does.
    if (point == nullptr) return event.synchronize();
    check(cudaStreamWaitEvent(native(), point->native(), 0), "waiting for an event");
    remember(late != nullptr ? event : point->behind);
  }

  void hold(std::chrono::duration<double> time) override {
    launch(*this, time.count() > 0 ? 1 : 0, 1, wait_for,
           static_cast<long long>(time.count() * 1e9));
  }

  void synchronize() override {
    for (; !awaited_.empty(); awaited_.pop_front()) awaited_.front().synchronize();
    check(cudaStreamSynchronize(native()), "work on a stream"), last_ = {};
  }

  void follow(const std::shared_ptr<LateEvent>& event) {
    late_ = event;
    remember(last_ = Event(event));
  }

  cudaStream_t native() {
    if (const auto late = std::exchange(late_, nullptr)) late->wait_for_launch();
    return stream_;
  }
  std::shared_ptr<void>& slot(std::type_index type) { return kept_[type]; }

 private:
  void remember(const Event& event) {
    while (!awaited_.empty() && awaited_.front().ready()) awaited_.pop_front();
    awaited_.push_back(event);
  }

  cudaStream_t stream_ = nullptr;
  std::shared_ptr<LateEvent> late_;  // the stream's last work, if it is launched late
  Event last_;                       // the last event of work that was launched late
  std::deque<Event> awaited_;        // events that synchronize() must wait for, too
  std::map<std::type_index, std::shared_ptr<void>> kept_;
};

}  // namespace

cudaStream_t native(Stream& stream) { return dynamic_cast<CudaStream&>(stream).native(); }

void follow(Stream& stream, const std::shared_ptr<LateEvent>& event) {
  dynamic_cast<CudaStream&>(stream).follow(event);
}

std::shared_ptr<void>& slot(Stream& stream, std::type_index type) {
  return dynamic_cast<CudaStream&>(stream).slot(type);
}

namespace {

// The version of CUDA that the driver's library supports: 13000 is 13.0. It is 0 if there is no
// such library. cudaDriverGetVersion() is not used here, because it starts the driver, and then no
// child of this process could use the driver.
int driver_version() {
  void* const driver = dlopen(NANOFSDP_DRIVER, RTLD_NOW);
  if (driver == nullptr) return 0;
  const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  if (ask != nullptr) ask(&version);
  return version;
}

std::string in_words(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

// A driver runs builds of its own major version of CUDA and of all earlier ones, except on GPUs
// newer than those that the build names: these must compile its PTX, for which an older driver has
// no compiler.
std::string why_not() {
  const int driver = driver_version(), build = CUDART_VERSION;
  if (driver == 0)
    return "no CUDA driver on this machine (the build has CUDA " + in_words(build) + ")";
  if (driver / 1000 >= build / 1000) return "";
  return "the CUDA driver is too old: expected one for CUDA " + std::to_string(build / 1000) +
         ".0 or newer, got " + in_words(driver) + "; update it, or build with CUDA " +
         in_words(driver);
}

int count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting GPUs");
  return count;
}

void use(int local_rank) { check(cudaSetDevice(local_rank % count()), "choosing a GPU"); }

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes > 0 ? bytes : 1), "taking memory of the GPU");
  cudaError_t zeroed = cudaMemset(memory, 0, bytes);
  if (zeroed == cudaSuccess) zeroed = cudaStreamSynchronize(nullptr);
  if (zeroed != cudaSuccess) release(memory);
  check(zeroed, "zeroing memory of the GPU");
  return memory;
}

void release(void* memory) noexcept { cudaFree(memory); }

std::unique_ptr<Stream> make_stream(Priority priority) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
  return std::make_unique<CudaStream>(priority == Priority::high ? greatest : least);
}

void copy(Stream& stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "copying");
}

}  // namespace nanofsdp::cuda
