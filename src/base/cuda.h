#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/device.h"

namespace nanofsdp {

/// @file
/// @brief The functions of device.cu. Rooms above base need only the number of GPUs.

/// Whether this build has the CUDA twins. If it has not, the functions below are never called.
#ifdef NANOFSDP_CUDA
constexpr bool kCuda = true;
#else
constexpr bool kCuda = false;
#endif

namespace cuda {

enum class Priority { normal, high };

std::string why_not();
int count();  ///< how many GPUs the machine has
void use(int local_rank);
void* allocate(std::size_t bytes);
void release(void* memory) noexcept;
std::unique_ptr<Stream> make_stream(Priority priority);

/// Enqueues a copy of `bytes` bytes on `stream`, a CUDA stream. Both `to` and `from` may lie in the
/// host's memory or the device's.
void copy(Stream& stream, void* to, const void* from, std::size_t bytes);

}  // namespace cuda
}  // namespace nanofsdp

/// On a GPU it returns from the function around it, with the result of the twin `cuda::call` in the
/// `.cu` file. A build without CUDA has no twins, so there the call is not compiled.
#define NANOFSDP_RETURN_ON_CUDA(device, call)        \
  if constexpr (::nanofsdp::kCuda) {                 \
    if ((device) == Device::cuda) return cuda::call; \
  }
