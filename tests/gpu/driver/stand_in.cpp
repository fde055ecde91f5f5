#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <sys/types.h>
#include <unistd.h>

// A stand-in for libcuda.so.1, the library of NVIDIA's driver, for a machine without one. It starts
// like the driver: only the first process that calls cuInit is served, none of its children. Then
// it has no GPU. Functions have CUDA's names and types; an int stands for CUresult.
//
// $STAND_IN_VERSION is the version that it says. Each cuInit writes a line to the file
// $STAND_IN_LOG: the process, and the result.

namespace {

enum { kSuccess = 0, kNotInitialized = 3, kNoDevice = 100 };

pid_t started = 0;  // the process that called cuInit first; children inherit it

int serve(int result) { return started == 0 || started == getpid() ? result : kNotInitialized; }

int no_device() { return serve(kNoDevice); }

}  // namespace

extern "C" {

int cuInit(unsigned) {
  if (started == 0) started = getpid();
  const int result = serve(kSuccess);
  if (std::FILE* const log = std::fopen(std::getenv("STAND_IN_LOG"), "a")) {
    std::fprintf(log, "%d %d\n", getpid(), result);
    std::fclose(log);
  }
  return result;
}

int cuDriverGetVersion(int* version) {
  *version = std::atoi(std::getenv("STAND_IN_VERSION"));
  return kSuccess;
}

// Here the runtime asks for all functions that it may ever call, by name.
int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* status) {
  const std::string_view asked = name;
  const auto address = [](auto* of) { return reinterpret_cast<void*>(of); };
  *function = asked == "cuInit"               ? address(cuInit)
              : asked == "cuDriverGetVersion" ? address(cuDriverGetVersion)
              : asked == "cuGetProcAddress"   ? address(cuGetProcAddress_v2)
                                              : address(no_device);
  if (status != nullptr) *status = 0;  // found
  return kSuccess;
}

}  // extern "C"
