#include "cuda_runtime.h"

#include <unistd.h>

// One device that is the host; memory.cpp and streams.cpp have the rest.

namespace {

// The driver starts in the process that first calls it, and serves no child of that process.
cudaError_t start() {
  static const pid_t process = getpid();
  return process == getpid() ? cudaSuccess : cudaErrorInitializationError;
}

}  // namespace

int cuDriverGetVersion(int* version) { return *version = CUDART_VERSION, 0; }

const char* cudaGetErrorName(cudaError_t) { return "cudaErrorEmulated"; }

cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, start(); }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, start(); }
cudaError_t cudaSetDevice(int device) { return device == 0 ? start() : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = *greatest = 0, start();
}
