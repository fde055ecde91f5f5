#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/device.h"

namespace nanofsdp::testing {

/// The operators' tests are compiled three times: for Eigen, for the kernels under the emulation of
/// tests/emulation, and for a GPU.
#ifdef NANOFSDP_TEST_CUDA
constexpr Device kDevice = Device::cuda;
#else
constexpr Device kDevice = Device::cpu;
#endif

/// Under the emulation each thread of a kernel takes a microsecond, so there are fewer and smaller
/// cases.
#if defined(NANOFSDP_TEST_CUDA) && !defined(NANOFSDP_TEST_GPU)
constexpr bool kEmulated = true;
#else
constexpr bool kEmulated = false;
#endif

#ifdef NANOFSDP_TEST_GPU
/// Memory that both the host and the GPU can read and write.
void* visible_allocate(std::size_t bytes);
void visible_release(void* memory) noexcept;

template <class T>
struct Visible {
  using value_type = T;
  Visible() = default;
  template <class U>
  Visible(const Visible<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(visible_allocate(n * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept { visible_release(memory); }
  friend bool operator==(const Visible&, const Visible&) { return true; }
};
#else
template <class T>
using Visible = std::allocator<T>;
#endif

/// The elements of a tensor in a test.
template <class T>
using Values = std::vector<T, Visible<T>>;

inline std::unique_ptr<Stream> stream_of(int threads = 1) {
  return make_compute_stream(kDevice, threads);
}

/// Numbers of threads to try. CUDA has no such number; there two runs must agree.
inline std::vector<int> threads_to_try(std::vector<int> on_the_cpu) {
  return kDevice == Device::cpu ? on_the_cpu : std::vector<int>{1};
}

/// The CPU's tolerance, or a larger one for kernels, which sum in other orders: at least 1e-5
/// (relative L2, float32).
constexpr double tolerance(double on_the_cpu, double on_cuda = 1e-5) {
  return kDevice == Device::cpu || on_the_cpu > on_cuda ? on_the_cpu : on_cuda;
}

}  // namespace nanofsdp::testing
