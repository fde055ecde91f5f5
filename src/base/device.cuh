#pragma once

#include <cuda_runtime.h>

#include "base/device.h"

namespace nanofsdp::cuda {

/// @file
/// @brief What kernels and NCCL need of a CUDA stream. Only for `.cu` files and comm/nccl.

/// @throws Error with CUDA's words unless `error` is success
void check(cudaError_t error, const char* what);

/// The CUDA stream behind `stream`, whose device is cuda.
cudaStream_t native(Stream& stream);

/// A point in CUDA work.
/// @throws what the work threw, at the latest in synchronize()
class CudaEvent final : public Event::State {
 public:
  explicit CudaEvent(cudaStream_t stream);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  bool ready() override;
  void synchronize() override;
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Enqueues `kernel<<<blocks, threads>>>(arguments...)` on `stream`; no blocks, no launch.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
            Arguments... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = native(stream);
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "kernel");
}

}  // namespace nanofsdp::cuda
