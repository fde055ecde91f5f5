#include "cuda_runtime.h"

#include <unistd.h>

#include <map>
#include <mutex>

// The host stands for the devices; memory.cpp and streams.cpp have the rest.

namespace {

// The driver starts in the process that calls it first, and serves no child of that process.
cudaError_t start() {
  static const pid_t process = getpid();
  if (emulation::fails()) return cudaErrorInvalidValue;
  return process == getpid() ? cudaSuccess : cudaErrorInitializationError;
}

thread_local int used = 0;  // the device of this thread
constexpr std::size_t kDefault = 48 * 1024, kMost = 227 * 1024;
std::mutex of_limits;
std::map<const void*, std::size_t>& limits() {  // it is never destroyed
  static auto* const limits = new std::map<const void*, std::size_t>;
  return *limits;
}

}  // namespace

int cuDriverGetVersion(int* version) {
  if (emulation::fails()) return cudaErrorInvalidValue;
  return *version = CUDART_VERSION, 0;
}

const char* cudaGetErrorName(cudaError_t) { return "cudaErrorEmulated"; }

cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, start(); }
cudaError_t cudaGetDeviceCount(int* count) { return *count = emulation::gpus, start(); }
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulation::gpus) return cudaErrorInvalidDevice;
  return used = device, start();
}
cudaError_t cudaGetDevice(int* device) { return *device = used, start(); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  return *properties = {"emulated GPU"}, start();
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = *greatest = 0, start();
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute which, int value) {
  if (emulation::fails()) return cudaErrorInvalidValue;
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const auto bytes = static_cast<std::size_t>(value);
  if (bytes > kMost) return cudaErrorInvalidValue;
  const std::lock_guard lock(of_limits);
  return limits()[kernel] = bytes, cudaSuccess;
}

std::size_t emulation::shared_limit(const void* kernel) {
  const std::lock_guard lock(of_limits);
  const auto found = limits().find(kernel);
  return found == limits().end() ? kDefault : std::max(kDefault, found->second);
}
