#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "asan.h"
#include "cuda_runtime.h"

// The memory of the device. It opens for device work, and is closed otherwise. No address is used
// twice. Addresses that are not allocated are mapped from a file without bytes, and never open.
//
// To open and to close memory takes time for each page that exists. So pages that no work has
// touched do not exist: new ones are mapped from a file of bytes 0xff, and zeros from none. Most of
// cuBLAS's workspace is never touched.

namespace emulation {
namespace {

constexpr std::size_t kArena = std::size_t{1} << 36;  // number of addresses
constexpr std::size_t kAlignment = 64;                // the alignment that base/device.h promises
constexpr std::size_t kFresh = 1 << 20;               // bytes in the file of 0xff

std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

class Arena {
 public:
  Arena() : begin_(map(nullptr, kArena, no_bytes_, MAP_SHARED | MAP_NORESERVE)) {
    const std::string bytes(kFresh, '\xff');
    std::fwrite(bytes.data(), 1, bytes.size(), fresh_);
    std::fflush(fresh_);
  }

  bool has(const void* memory) const { return memory >= begin_ && memory < begin_ + kArena; }

  // The allocation ends at the end of a page, as nearly as the alignment allows. The page behind it
  // belongs to no allocation.
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t room = rounded_up(bytes, page_);
    if (bytes > kArena || used_ + room + page_ > kArena) return nullptr;
    char* const pages = begin_ + used_;
    for (std::size_t at = 0; at < room; at += kFresh)
      map(pages + at, std::min(kFresh, room - at), fresh_, MAP_PRIVATE | MAP_FIXED);
    char* const memory = pages + room - rounded_up(bytes, kAlignment);
    used_ += room + page_;
    blocks_[memory] = {pages, room};
    ASAN_POISON_MEMORY_REGION(pages, room);
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
    return memory;
  }

  bool release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(memory);
    if (block == blocks_.end()) return false;
    const auto [pages, room] = block->second;
    map(pages, room, no_bytes_, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, pages - begin_);
    ASAN_POISON_MEMORY_REGION(pages, room);
    blocks_.erase(block);
    return true;
  }

  void set(char* memory, int value, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const Pages anew = value == 0 ? whole_pages(memory, bytes) : Pages{memory};
    if (anew.bytes > 0)
      map(anew.begin, anew.bytes, nullptr, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
    char *const rest = anew.begin + anew.bytes, *const end = memory + bytes;
    std::memset(memory, value, static_cast<std::size_t>(anew.begin - memory));
    std::memset(rest, value, static_cast<std::size_t>(end - rest));
  }

  void open() {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) mprotect(begin_, used_, protection());
  }
  void shut() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) mprotect(begin_, used_, protection());
  }

 private:
  struct Pages {
    char* begin = nullptr;
    std::size_t bytes = 0;
  };

  int protection() const { return users_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE; }

  // The whole pages in a part of an allocation. There are none if it is no such part.
  Pages whole_pages(char* memory, std::size_t bytes) const {
    const auto after = blocks_.upper_bound(memory);
    if (!has(memory) || after == blocks_.begin()) return {memory};
    const auto& [pages, room] = std::prev(after)->second;
    const auto begin = static_cast<std::size_t>(memory - pages), end = begin + bytes;
    const std::size_t first = rounded_up(begin, page_), last = end / page_ * page_;
    return end <= room && first < last ? Pages{pages + first, last - first} : Pages{memory};
  }

  char* map(char* at, std::size_t bytes, std::FILE* file, int flags, off_t offset = 0) {
    void* const mapped =
        mmap(at, bytes, protection(), flags, file == nullptr ? -1 : fileno(file), offset);
    if (mapped != MAP_FAILED) return static_cast<char*>(mapped);
    std::perror("emulated CUDA: the memory of the device");
    std::abort();
  }

  std::mutex mutex_;
  std::FILE *const no_bytes_ = std::tmpfile(), *const fresh_ = std::tmpfile();
  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t used_ = 0;
  int users_ = 0;
  std::map<void*, Pages> blocks_;
  char* const begin_;  // the last member, because the others are needed to map it
};

// Prints whose fault it is. Then the access happens again, with the earlier handler.
struct sigaction before_segv, before_bus;
void tell(int signal, siginfo_t* info, void*) {
  if (is_device(info->si_addr)) {
    constexpr std::string_view kHost = "emulated CUDA: the host touched device memory\n";
    constexpr std::string_view kDevice =
        "emulated CUDA: device work touched memory that is freed, or behind an allocation's end\n";
    const std::string_view text = signal == SIGSEGV ? kHost : kDevice;
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  }
  sigaction(signal, signal == SIGSEGV ? &before_segv : &before_bus, nullptr);
}

// It is never destroyed, because threads may still work while the process ends.
Arena& arena() {
  static Arena* const arena = [] {
    struct sigaction action {};
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
    return new Arena;
  }();
  return *arena;
}

}  // namespace

bool is_device(const void* memory) { return arena().has(memory); }
void set(void* memory, int value, std::size_t bytes) {
  arena().set(static_cast<char*>(memory), value, bytes);
}
DeviceWork::DeviceWork() { arena().open(); }
DeviceWork::~DeviceWork() { arena().shut(); }

}  // namespace emulation

// New memory has values that are NaN as floats and wrong as indices.
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (emulation::fails()) return cudaErrorMemoryAllocation;
  *memory = emulation::arena().allocate(bytes);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  return ++emulation::alive, cudaSuccess;
}
// As CUDA's, it waits for all work. Here it does so only when a call has failed. No other
// program may rely on it.
cudaError_t cudaFree(void* memory) {
  if (emulation::has_failed) emulation::drain();
  const bool known = memory == nullptr || emulation::arena().release(memory);
  if (known && memory != nullptr) --emulation::alive;
  return known && !emulation::fails() ? cudaSuccess : cudaErrorInvalidValue;
}
