#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <typeindex>

#include "base/device.h"

namespace nanofsdp::cuda {

/// @file
/// @brief What kernels and NCCL need of a CUDA stream. Only for `.cu` files and comm/nccl.

/// @throws Error with CUDA's words unless `error` is success
void check(cudaError_t error, const char* what);

/// The CUDA stream behind `stream`, whose device is cuda.
cudaStream_t native(Stream& stream);

/// What a library keeps with `stream` of type T, for as long as the stream lives; empty at first.
std::shared_ptr<void>& slot(Stream& stream, std::type_index type);

/// The T of `stream`, made when it is first asked for: a handle of cuBLAS, its workspace. Goes when
/// the stream's work is done.
template <class T>
T& kept_with(Stream& stream) {
  std::shared_ptr<void>& kept = slot(stream, typeid(T));
  if (!kept) kept = std::make_shared<T>();
  return *static_cast<T*>(kept.get());
}

/// A point in CUDA work. A kind of work that fails without CUDA's knowing derives its own.
/// @throws what the work threw, at the latest in synchronize()
class CudaEvent : public Event::State {
 public:
  explicit CudaEvent(cudaStream_t stream) : CudaEvent() { record(stream); }
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  bool ready() override;
  void synchronize() override;
  cudaEvent_t native() const { return event_; }

  /// Whether the work can fail in ways of which CUDA does not know. Streams that wait for this
  /// point then ask it, when the host next waits for them.
  virtual bool tells_more_than_cuda() const { return false; }

 protected:
  CudaEvent();  ///< of a point that is not known yet
  void record(cudaStream_t stream);

 private:
  cudaEvent_t event_ = nullptr;
};

/// The point behind work that another library puts on a stream in its own time, while the host goes
/// on. The point is recorded as soon as somebody asks for it and the work is on the stream.
class LateEvent : public CudaEvent {
 public:
  explicit LateEvent(cudaStream_t stream) : stream_(stream) {}

  bool ready() override { return is_on_stream() && CudaEvent::ready(); }
  bool tells_more_than_cuda() const override { return true; }

  /// Blocks the host until the work is on the stream. @throws what the library says if it fails
  virtual void wait_for_launch() = 0;

  /// Until the device has done or given up the work, which need not be on the stream.
  void wait_for_device();

 protected:
  /// Whether the work is on the stream, with this point behind it. From any thread.
  bool is_on_stream();

 private:
  virtual bool is_launched() = 0;  // as the library says

  const cudaStream_t stream_;
  std::mutex mutex_;  // of:
  bool recorded_ = false;
};

/// `event` is behind what was begun last on `stream`. The next function that puts something there
/// waits for the launch first.
void follow(Stream& stream, const std::shared_ptr<LateEvent>& event);

/// Enqueues `kernel<<<blocks, threads, shared>>>(arguments...)` on `stream`; no blocks, no launch.
/// @param shared bytes of shared memory beside what the kernel declares: 227 KB on an H100
template <class... Parameters, class... Arguments>
void launch(Stream& stream, dim3 blocks, dim3 threads, std::size_t shared,
            void (*kernel)(Parameters...), Arguments... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  if (shared > 0) {  // a kernel has to be told of more than 48 KB, and where the cache gives way
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)),
          "shared memory of a kernel");
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          "shared memory of a kernel");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = native(stream);
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "kernel");
}

/// The same without such memory.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
            Arguments... arguments) {
  launch(stream, blocks, threads, std::size_t{0}, kernel, arguments...);
}

}  // namespace nanofsdp::cuda
