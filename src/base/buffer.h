#pragma once

#include <cstdint>

#include "base/ledger.h"
#include "base/shared_memory.h"
#include "base/tensor.h"

namespace nanofsdp {

/// @file
/// @brief The only owner of tensor memory.

/// Memory of one class on one device, zeroed, aligned to 64 bytes (a cache line, an AVX-512
/// register), entered in the ledger for as long as it lives. Move-only; the ledger outlives it.
class Buffer {
 public:
  /// Whether the whole buffer counts as in use, or its owner says when which part is (a pool).
  enum class Use { whole, by_owner };

  Buffer() = default;
  /// Allocates `bytes` bytes, which may be 0, on the device.
  /// @param shared where they lie if peers read this class of memory; null: nowhere special
  /// @throws Error if there is not enough memory
  Buffer(Ledger& ledger, MemoryClass memory_class, std::uint64_t bytes, Device device = Device::cpu,
         Use use = Use::whole, SharedMemory* shared = nullptr);
  ~Buffer();
  /// Takes the memory over; the other buffer is empty afterwards.
  Buffer(Buffer&& other) noexcept;
  /// Frees what it had, and takes the memory over.
  Buffer& operator=(Buffer&& other) noexcept;

  /// Makes it at least this long. What it held is lost: it first gives back, then takes. Not of a
  /// default Buffer.
  /// @throws Error if there is not enough memory; the buffer is empty then, and may grow again
  void grow(std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_; }  ///< of the whole buffer

  /// A view that starts `offset` bytes into the buffer.
  /// @throws ShapeError if it would end behind the buffer
  Tensor tensor(Shape shape, DType dtype = DType::float32, std::uint64_t offset = 0) const;

 private:
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
