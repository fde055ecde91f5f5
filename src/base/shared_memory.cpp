#include "base/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/platform.h"

namespace nanofsdp {
namespace {

// A multiple of the page of every system, including systems with pages of 64 KB.
constexpr std::size_t kPage = 1 << 16;

// The most addresses that all parts together may take. Processors of 64 bits have at least 47 bits
// for addresses of a process.
constexpr std::size_t kMostAddresses = std::size_t{1} << (sizeof(void*) == 8 ? 45 : 30);

}  // namespace

std::size_t SharedMemory::part_bytes(int parts) {
  const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::min(memory, kMostAddresses / static_cast<std::size_t>(parts)) / kPage * kPage;
}

SharedMemory::SharedMemory(int descriptor, int parts, int mine)
    : parts_(parts), mine_(mine), part_bytes_(part_bytes(parts)) {
  const std::size_t bytes = static_cast<std::size_t>(parts) * part_bytes_;
  void* const first =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  NANOFSDP_CHECK(first != MAP_FAILED, .what = "shared memory", .expected = "addresses for it",
                 .got = std::strerror(errno), .hint = "raise the limit on them (ulimit -v)");
  first_ = static_cast<std::byte*>(first);
  put_into_core_dumps(first, bytes, false);  // allocate() adds this rank's memory again
  // Under an emulator the system may say that it takes pages back, and not do it. So this is tried
  // with the last page, which no allocation has yet.
  std::byte* const last = at(mine_, part_bytes_ - kPage);
  *last = std::byte{1};
  give_back_pages(last, kPage);
  pages_go_ = *last == std::byte{0};
  clear(last, kPage);
}

SharedMemory::~SharedMemory() { munmap(first_, static_cast<std::size_t>(parts_) * part_bytes_); }

void SharedMemory::clear(void* first, std::size_t bytes) noexcept {
  if (!pages_go_ || !give_back_pages(first, bytes)) std::memset(first, 0, bytes);
}

void* SharedMemory::allocate(std::size_t bytes) {
  const std::size_t most = std::clamp<std::size_t>(bytes, 1, part_bytes_ + 1);
  const std::size_t size = (most + kPage - 1) / kPage * kPage;
  const std::lock_guard lock(mutex_);
  std::size_t begin = 0;  // begin of the first gap that is large enough
  for (const auto& [taken, end] : ends_) {
    if (taken - begin >= size) break;
    begin = end;
  }
  NANOFSDP_CHECK(part_bytes_ - begin >= size, .what = "shared memory",
                 .expected = fmt::format("room for {} bytes", bytes), .got = "none",
                 .hint = "use more ranks or less batch");
  ends_[begin] = begin + size;
  put_into_core_dumps(at(mine_, begin), size, true);
  return at(mine_, begin);
}

void SharedMemory::release(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = ends_.find(offset_of(memory));
  // Clears the memory, which must be zeroed when it is allocated again.
  clear(memory, found->second - found->first);
  put_into_core_dumps(memory, found->second - found->first, false);
  ends_.erase(found);
}

std::uint64_t SharedMemory::offset_of(const void* address) const {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - at(mine_, 0));
}

std::byte* SharedMemory::at(int part, std::uint64_t offset) const {
  return first_ + static_cast<std::size_t>(part) * part_bytes_ + offset;
}

}  // namespace nanofsdp
