#include "base/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <new>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fingerprint.h"

#if defined(__linux__)
#include <malloc.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include <csignal>
#endif

namespace nanofsdp {

void* reserve_addresses(std::size_t bytes) {
  const std::size_t length = std::max<std::size_t>(bytes, 1);
  void* first =
      mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (first == MAP_FAILED) throw std::bad_alloc();
  return first;
}

void give_back_addresses(void* addresses, std::size_t bytes) noexcept {
  munmap(addresses, std::max<std::size_t>(bytes, 1));
}

#if defined(__linux__)

int count_threads() {
  // Field 20 of the line that proc(5) describes. An emulator of another processor fills this line
  // in for the program, if only with zeros; /proc/self/task lists the emulator's threads as well.
  // Field 2 is a name in parentheses, which may contain anything.
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  return std::max(std::stoi(*std::next(std::istream_iterator<std::string>(fields), 20 - 3)), 1);
}

void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL);  // it died before the line above
}

void run_with_background_threads(const std::function<void()>& work) {
  std::async(std::launch::async, [&] {
    // Threads inherit the class of the thread that starts them. Needs no privilege; if it is
    // refused all the same, communication is slower and right.
    const sched_param parameters{};
    sched_setscheduler(0, SCHED_BATCH, &parameters);
    work();
  }).get();
}

std::uint64_t program_fingerprint() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return fingerprint(bytes.view());
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most it takes
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

void give_back_freed_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

std::string process_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return error ? "" : boot + " " + space.string();
}

void allow_siblings_to_read() { prctl(PR_SET_PTRACER, getppid()); }

bool read_memory_of(pid_t process, std::uint64_t from, void* to, std::size_t bytes) {
  auto* next = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const iovec mine{next, bytes}, theirs{reinterpret_cast<void*>(from), bytes};
    const ssize_t copied = process_vm_readv(process, &mine, 1, &theirs, 1, 0);
    if (copied <= 0) return false;
    next += copied, from += static_cast<std::uint64_t>(copied);
    bytes -= static_cast<std::size_t>(copied);
  }
  return true;
}

int open_nameless(const std::string& directory) {
  return open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

bool name_file(int descriptor, const std::string& path) {
  const std::string file = fmt::format("/proc/self/fd/{}", descriptor);
  return linkat(AT_FDCWD, file.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

std::string name_signal(int number) {
  const char* const name = sigabbrev_np(number);
  return fmt::format("signal {} (SIG{})", number, name != nullptr ? name : "?");
}

#else

int count_threads() { return 1; }
void die_with_parent(pid_t) {}
void run_with_background_threads(const std::function<void()>& work) { work(); }
std::uint64_t program_fingerprint() { return 0; }
void keep_freed_memory() {}
void give_back_freed_memory() {}
std::string process_space() { return ""; }
void allow_siblings_to_read() {}
bool read_memory_of(pid_t, std::uint64_t, void*, std::size_t) { return false; }
int open_nameless(const std::string&) {
  errno = ENOTSUP;
  return -1;
}
bool name_file(int, const std::string&) { return false; }
std::string name_signal(int number) {
  return fmt::format("signal {} ({})", number, strsignal(number));
}

#endif

}  // namespace nanofsdp
