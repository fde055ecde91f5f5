#pragma once

#include <cstddef>
#include <utility>

#include "base/cuda.h"
#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief What one kernel leaves to the next. Internal to ops.

/// Memory kept with a stream, on which the next call comes after this one; it grows in the first
/// step, to what the largest operand of the model needs, and not again. Not in the ledger. Every
/// purpose derives its own.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { nanofsdp::cuda::release(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* of(Stream& stream, std::size_t bytes) {
    if (bytes > bytes_) {
      stream.synchronize();  // a call before may still read what goes
      nanofsdp::cuda::release(std::exchange(memory_, nullptr));
      memory_ = nanofsdp::cuda::allocate(bytes);
      bytes_ = bytes;
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The `bytes` that are kept with `stream` for the purpose S.
template <class S>
void* scratch(Stream& stream, std::size_t bytes) {
  return nanofsdp::cuda::kept_with<S>(stream).of(stream, bytes);
}

}  // namespace nanofsdp::ops::cuda
