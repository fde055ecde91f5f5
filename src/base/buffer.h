#pragma once

#include <cstdint>

#include "base/ledger.h"
#include "base/shared_memory.h"
#include "base/tensor.h"

namespace nanofsdp {

/// @file
/// @brief The only owner of tensor memory.

/// Memory of one class on one device. The memory is zeroed, and aligned to 64 bytes (a cache line,
/// an AVX-512 register). As long as it lives, the ledger counts it, and the ledger must outlive it.
class Buffer {
 public:
  /// Either the whole buffer counts as in use, or its owner tells the ledger which part is (a
  /// pool).
  enum class Use { whole, by_owner };

  Buffer() = default;
  /// Allocates `bytes` bytes, which may be 0, on the device.
  /// @param shared if peers read this class of memory, the buffer lies there; null: no peer can
  /// @throws Error if there is not enough memory
  Buffer(Ledger& ledger, MemoryClass memory_class, std::uint64_t bytes, Device device = Device::cpu,
         Use use = Use::whole, SharedMemory* shared = nullptr);
  ~Buffer();
  /// Takes the memory of `other`, which is empty afterwards.
  Buffer(Buffer&& other) noexcept;
  /// Frees its own memory, and takes the memory of `other`.
  Buffer& operator=(Buffer&& other) noexcept;

  /// Makes the buffer at least `bytes` long. It frees its memory before it allocates the new one,
  /// so its contents are lost. A default Buffer cannot grow.
  /// @throws Error if there is not enough memory; then the buffer is empty, and may grow again
  void grow(std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_; }

  /// A view that starts `offset` bytes into the buffer.
  /// @throws ShapeError if it would end behind the buffer
  Tensor tensor(Shape shape, DType dtype = DType::float32, std::uint64_t offset = 0) const;

 private:
  Buffer& operator=(const Buffer&) = default;  // copies the members: then two own the memory
  void release();

  Ledger* ledger_ = nullptr;
  MemoryClass class_ = MemoryClass::communication;
  Device device_ = Device::cpu;
  Use use_ = Use::whole;
  SharedMemory* shared_ = nullptr;
  Address first_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace nanofsdp
