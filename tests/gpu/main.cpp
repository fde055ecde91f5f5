#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "support/device.h"

// Runs the operators' tests on a GPU. Without a GPU they are skipped: exit code 77, with the
// reason.

namespace nanofsdp::testing {

void* visible_allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMallocHost(&memory, bytes > 0 ? bytes : 1) != cudaSuccess) throw std::bad_alloc();
  return memory;
}

void visible_release(void* memory) noexcept { cudaFreeHost(memory); }

}  // namespace nanofsdp::testing

int main(int argc, char** argv) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);  // the tests read results at once
  ::testing::InitGoogleTest(&argc, argv);
  if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  try {
    nanofsdp::use_device(nanofsdp::Device::cuda, 0);
  } catch (const std::exception& error) {
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
  return RUN_ALL_TESTS();
}
