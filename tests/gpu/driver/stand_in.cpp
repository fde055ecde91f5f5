#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <sys/types.h>
#include <unistd.h>

// A stand-in for libcuda.so.1, the library of NVIDIA's driver, for a machine without one. It starts
// like the driver: it serves only the first process that calls cuInit, and none of its children. It
// reports that there is no GPU. Functions have CUDA's names and types; an int stands for CUresult.
//
// The version that it reports is $STAND_IN_VERSION. Each cuInit writes a line with the process and
// the result to the file $STAND_IN_LOG.

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

// The runtime calls this for every function that it may use, by name.
int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* status) {
  const std::string_view asked = name;
  const auto address = [](auto* of) { return reinterpret_cast<void*>(of); };
  *function = asked == "cuInit"               ? address(cuInit)
              : asked == "cuDriverGetVersion" ? address(cuDriverGetVersion)
              : asked == "cuGetProcAddress"   ? address(cuGetProcAddress_v2)
                                              : address(no_device);
  if (status != nullptr) *status = 0;  // the function was found
  return kSuccess;
}

}  // extern "C"
