#include "cuda_runtime.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

// One device that is the host, with memory of its malloc; streams.cpp has the rest.

namespace {

// The driver starts in the process that first calls it, and serves no child of that process.
cudaError_t start() {
  static const pid_t process = getpid();
  return process == getpid() ? cudaSuccess : cudaErrorInitializationError;
}

}  // namespace

int cuDriverGetVersion(int* version) { return *version = CUDART_VERSION, 0; }

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInitializationError ? "initialization error" : "emulated error";
}
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorEmulated"; }

cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, start(); }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, start(); }
cudaError_t cudaSetDevice(int) { return start(); }
cudaError_t cudaDeviceSynchronize() { return start(); }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = *greatest = 0, start();
}

// As much as asked for, so that the address sanitizer sees one byte too many.
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t error = start()) return error;
  return posix_memalign(memory, 64, bytes) == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return std::memset(memory, value, bytes), cudaSuccess;
}
