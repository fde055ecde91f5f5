#include "base/ledger.h"

#include <algorithm>
#include <utility>

namespace nanofsdp {

//! [reserve]
void Ledger::reserve(MemoryClass memory_class, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  MemoryCount& count = counts_[static_cast<std::size_t>(memory_class)];
  count.reserved += bytes;
  count.reserved_peak = std::max(count.reserved_peak, count.reserved);
  total_ += bytes;
  total_peak_ = std::max(total_peak_, total_);
  if (bytes > 0) ++allocations_;
}
//! [reserve]

void Ledger::use(MemoryClass memory_class, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  MemoryCount& count = counts_[static_cast<std::size_t>(memory_class)];
  count.in_use += bytes;
  count.in_use_peak = std::max(count.in_use_peak, count.in_use);
}

std::uint64_t Ledger::addresses(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  return std::exchange(next_address_, next_address_ + (bytes / 64 + 1) * 64);
}

}  // namespace nanofsdp
