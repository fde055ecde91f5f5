#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "cuda_runtime.h"

namespace emulation {

/// @file
/// @brief The shared memory that the launch of a block asked for, and copies to it.

/// A copy of `bytes` bytes to an address in shared memory, or zeros.
struct Copy {
  unsigned to;
  const void* from;
  unsigned bytes;
  bool there;
};

class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {}

  void poison() { bytes_.assign(bytes_.size(), kPoison); }

  unsigned char* at(unsigned address, unsigned bytes, unsigned alignment) {
    if (address % alignment != 0) {
      throw std::runtime_error("emulated kernel: an address in shared memory is not aligned");
    }
    if (address < kSharedBegin || address + bytes > kSharedBegin + bytes_.size()) {
      throw std::runtime_error("emulated kernel: an address lies outside of shared memory");
    }
    return bytes_.data() + (address - kSharedBegin);
  }

  /// Begins a copy. Until it is done no thread may read its target.
  void begin(const Copy& copy) {
    if (reinterpret_cast<std::uintptr_t>(copy.from) % copy.bytes != 0) {
      throw std::runtime_error("emulated kernel: cp.async from an address that is not aligned");
    }
    std::memset(at(copy.to, copy.bytes, copy.bytes), kPoison, copy.bytes);
  }
  void perform(const Copy& copy) {
    unsigned char* const to = at(copy.to, copy.bytes, copy.bytes);
    copy.there ? std::memcpy(to, copy.from, copy.bytes) : std::memset(to, 0, copy.bytes);
  }

 private:
  static constexpr int kPoison = 0xff;  // NaN as a float, and as two of bfloat16
  std::vector<unsigned char> bytes_;
};

}  // namespace emulation
