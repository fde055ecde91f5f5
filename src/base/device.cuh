#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <typeindex>

#include "base/cuda.h"
#include "base/device.h"

namespace nanofsdp::cuda {

/// @file
/// @brief The parts of a CUDA stream that kernels and NCCL need. Only for `.cu` files and
/// comm/nccl.

/// Requires that `error` is success.
/// @throws Error with CUDA's text if it is not
void check(cudaError_t error, const char* what);

/// The CUDA stream behind `stream`, whose device is cuda.
cudaStream_t native(Stream& stream);

/// An object of type T that a library keeps with `stream` as long as the stream lives. It is empty
/// at first.
std::shared_ptr<void>& slot(Stream& stream, std::type_index type);

/// The T of `stream`, such as a handle of cuBLAS or its workspace. The first call makes it. It is
/// destroyed when the stream's work is done.
template <class T>
T& kept_with(Stream& stream) {
  std::shared_ptr<void>& kept = slot(stream, typeid(T));
  if (!kept) kept = std::make_shared<T>();
  return *static_cast<T*>(kept.get());
}

/// Memory of the GPU that its owner releases.
using Memory = std::unique_ptr<void, void (*)(void*) noexcept>;

/// Memory that is kept with a stream, and used again by the next call on that stream. It grows in
/// the first step to the size that the largest operand of the model needs. The ledger does not
/// count it. Each purpose derives a class of its own.
struct Scratch {
  Memory memory{nullptr, release};
  std::size_t bytes = 0;
};

/// Memory for `count` elements of T that is kept with `stream` for the purpose S.
template <class S, class T>
T* scratch(Stream& stream, std::size_t count) {
  const std::size_t bytes = count * sizeof(T);
  Scratch& kept = kept_with<S>(stream);
  if (kept.bytes < bytes) {
    stream.synchronize();  // an earlier call may still read the old memory
    kept = {};             // if there is no new memory, the next call asks again
    kept.memory.reset(allocate(bytes));
    kept.bytes = bytes;
  }
  return static_cast<T*>(kept.memory.get());
}

/// A point in CUDA work. Work that may fail without CUDA's knowledge derives a class of its own.
/// @throws the error of the work, at the latest in synchronize()
class CudaEvent : public Event::State {
 public:
  /// @param flags cudaEventDefault for a point that tells its time
  explicit CudaEvent(cudaStream_t stream, unsigned flags = cudaEventDisableTiming)
      : CudaEvent(flags) {
    record(stream);
  }
  bool ready() override;
  void synchronize() override;
  cudaEvent_t native() const { return event_.get(); }

  /// The last work before this point that may fail without CUDA's knowledge, if there is any. A
  /// stream that waits for this point asks it when the host next waits for the stream.
  Event behind{};

 protected:
  explicit CudaEvent(unsigned flags);  ///< makes a point that is recorded later
  void record(cudaStream_t stream);

 private:
  std::unique_ptr<CUevent_st, cudaError_t (*)(cudaEvent_t)> event_{nullptr, cudaEventDestroy};
};

/// The point behind work that another library puts on a stream later, while the host goes on. The
/// point is recorded when the work is on the stream and a function asks for the point.
class LateEvent : public CudaEvent {
 public:
  explicit LateEvent(cudaStream_t stream) : CudaEvent(cudaEventDisableTiming), stream_(stream) {}

  bool ready() override { return is_on_stream() && CudaEvent::ready(); }

  /// Blocks the host until the work is on the stream. @throws the library's error if it fails
  virtual void wait_for_launch() = 0;

  /// Blocks until the device has done the work or has given it up. The work need not be on the
  /// stream yet.
  void wait_for_device();

 protected:
  /// Whether the work is on the stream, and this point behind it. Any thread may call it.
  bool is_on_stream();

 private:
  virtual bool is_launched() = 0;  // whether the library has launched the work

  const cudaStream_t stream_;
  std::mutex mutex_;  // guards what follows
  bool recorded_ = false;
};

/// Says that `event` is behind the work that was begun last on `stream`. The next function that
/// enqueues work there first waits for the launch.
void follow(Stream& stream, const std::shared_ptr<LateEvent>& event);

/// Enqueues `kernel<<<blocks, threads, shared>>>(arguments...)` on `stream`. Without blocks it
/// launches nothing. Each argument is cast to the type of the kernel's parameter.
/// @param shared bytes of shared memory beside the kernel's own declarations: 227 KB on an H100
template <class... Parameters, class... Arguments>
void launch(Stream& stream, dim3 blocks, dim3 threads, std::size_t shared,
            void (*kernel)(Parameters...), Arguments... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  if (shared > 0) {  // more than 48 KB must be announced, and taken from the cache
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)),
          "shared memory of a kernel");
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          "shared memory of a kernel");
  }
  const cudaLaunchConfig_t config{
      .gridDim = blocks, .blockDim = threads, .dynamicSmemBytes = shared, .stream = native(stream)};
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "kernel");
}

/// The same without such shared memory.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
            Arguments... arguments) {
  launch(stream, blocks, threads, std::size_t{0}, kernel, arguments...);
}

}  // namespace nanofsdp::cuda
