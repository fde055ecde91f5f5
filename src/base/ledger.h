#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace nanofsdp {

/// @file
/// @brief Counts the bytes of each class. Every claim about memory is compared with these counts.

/// The purpose of memory. Every Buffer belongs to one class.
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

/// The name of a class, "parameter shards" for example.
constexpr std::string_view name_of(MemoryClass memory_class) {
  constexpr std::string_view kNames[] = {
      "parameter shards",    "gradient shards", "optimizer",    "unsharded parameters",
      "unsharded gradients", "activations",     "communication"};
  return kNames[static_cast<std::size_t>(memory_class)];
}

/// Whether collectives read memory of this class. They read shards, whole parameters and gradients,
/// and the memory of communication.
constexpr bool is_read_by_peers(MemoryClass memory_class) {
  return memory_class != MemoryClass::optimizer && memory_class != MemoryClass::activations;
}

/// The bytes of one class. Reserved bytes are allocated. Bytes in use also hold something now. The
/// two differ only for pools, because their slots stay allocated between uses. A peak is the
/// largest value so far.
struct MemoryCount {
  std::int64_t reserved = 0, reserved_peak = 0;
  std::int64_t in_use = 0, in_use_peak = 0;
};

/// Counts bytes by class for one rank. Safe to call from the rank's streams.
class Ledger {
 public:
  /// Counts an allocation (bytes > 0), or its end (bytes < 0).
  void reserve(MemoryClass memory_class, std::int64_t bytes);

  /// Counts reserved memory that holds something from now on (bytes > 0), or no longer (bytes < 0).
  void use(MemoryClass memory_class, std::int64_t bytes);

  /// Returns the first of `bytes` addresses, which no other buffer of the rank has. A simulated
  /// device uses them. A host with 64-bit pointers has no memory there.
  std::uint64_t addresses(std::uint64_t bytes);

  /// The bytes of one class.
  MemoryCount count(MemoryClass memory_class) const {
    return now(counts_[static_cast<std::size_t>(memory_class)]);
  }

  /// The reserved bytes of all classes, now.
  std::int64_t total() const { return now(total_); }
  /// The most that total() has been.
  std::int64_t total_peak() const { return now(total_peak_); }

  /// How many allocations there were. In a training it does not grow after the first step.
  std::int64_t allocations() const { return now(allocations_); }

 private:
  template <class T>
  T now(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  std::array<MemoryCount, kMemoryClasses.size()> counts_{};
  std::int64_t total_ = 0, total_peak_ = 0, allocations_ = 0;
  std::uint64_t next_address_ = std::uint64_t{0x1f0} << 48;
};

}  // namespace nanofsdp
