#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace nanofsdp {

/// @file
/// @brief The bytes of each class, counted: every claim about memory is compared with this count.

/// What memory is for. Every Buffer belongs to one class.
enum class MemoryClass {
  parameter_shards,
  gradient_shards,
  optimizer,
  unsharded_parameters,
  unsharded_gradients,
  activations,
  communication
};

/// All classes, in the order of the enumeration.
inline constexpr std::array kMemoryClasses = {
    MemoryClass::parameter_shards,     MemoryClass::gradient_shards,     MemoryClass::optimizer,
    MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients, MemoryClass::activations,
    MemoryClass::communication};

/// "parameter_shards" and so on.
std::string_view name_of(MemoryClass memory_class);

/// Whether collectives read memory of this class: that of shards, of what is unsharded, and of
/// communication.
constexpr bool is_read_by_peers(MemoryClass memory_class) {
  return memory_class != MemoryClass::optimizer && memory_class != MemoryClass::activations;
}

/// Bytes of one class. Reserved: allocated. In use: of these, holding something now; they differ
/// only for pools, whose slots stay allocated between uses.
struct MemoryCount {
  std::int64_t reserved = 0;       ///< now
  std::int64_t reserved_peak = 0;  ///< at most, so far
  std::int64_t in_use = 0;         ///< now
  std::int64_t in_use_peak = 0;    ///< at most, so far
};

/// Counts bytes by class for one rank. Safe to call from the rank's streams.
class Ledger {
 public:
  /// An allocation (bytes > 0) or its end (bytes < 0).
  void reserve(MemoryClass memory_class, std::int64_t bytes);

  /// Reserved memory begins (bytes > 0) or ends (bytes < 0) to hold something.
  void use(MemoryClass memory_class, std::int64_t bytes);

  /// The first of so many addresses that no other buffer of the rank has, for a device without
  /// memory. A host with 64-bit pointers has mapped nothing there.
  std::uint64_t addresses(std::uint64_t bytes);

  /// The bytes of one class.
  MemoryCount count(MemoryClass memory_class) const {
    return now(counts_[static_cast<std::size_t>(memory_class)]);
  }

  /// Reserved bytes over all classes, now, and at the moment when they were most.
  std::int64_t total() const { return now(total_); }
  std::int64_t total_peak() const { return now(total_peak_); }  ///< at that moment

  /// Allocations so far: it must not grow after the first step.
  std::int64_t allocations() const { return now(allocations_); }

 private:
  template <class T>
  T now(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  std::array<MemoryCount, kMemoryClasses.size()> counts_{};
  std::int64_t total_ = 0;
  std::int64_t total_peak_ = 0;
  std::int64_t allocations_ = 0;
  std::uint64_t next_address_ = std::uint64_t{0x1f0} << 48;
};

}  // namespace nanofsdp
