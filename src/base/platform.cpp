#include "base/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <limits>
#include <mutex>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

#if defined(__linux__)
#include <linux/futex.h>
#include <malloc.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <csignal>
#endif

namespace nanofsdp {

#if defined(__linux__)

void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL);  // the parent died before the line above
}

void run_with_background_threads(const std::function<void()>& work) {
  std::async(std::launch::async, [&] {
    // Threads inherit the scheduling class of the thread that starts them. This call needs no
    // privilege. If the system still refuses it, communication is slower but correct.
    const sched_param parameters{};
    sched_setscheduler(0, SCHED_BATCH, &parameters);
    work();
  }).get();
}

int open_shared_file(std::size_t bytes) {
  rlimit limit{};  // a write beyond this limit would end the process
  getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur < bytes) return errno = EFBIG, -1;
  const int file = memfd_create("nanofsdp", MFD_CLOEXEC);
  const auto size = static_cast<off_t>(bytes);
  if (file < 0 || (fchmod(file, S_IRUSR | S_IWUSR) == 0 && ftruncate(file, size) == 0)) return file;
  const int why = errno;
  close(file);
  return errno = why, -1;
}

bool give_back_pages(void* first, std::size_t bytes) noexcept {
  return madvise(first, bytes, MADV_REMOVE) == 0;
}

void put_into_core_dumps(void* first, std::size_t bytes, bool whether) noexcept {
  madvise(first, bytes, whether ? MADV_DODUMP : MADV_DONTDUMP);
}

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::milliseconds limit) {
  const timespec time{limit.count() / 1000, limit.count() % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

#else

void die_with_parent(pid_t) {}
void run_with_background_threads(const std::function<void()>& work) { work(); }
int open_shared_file(std::size_t) { return errno = ENOTSUP, -1; }
bool give_back_pages(void*, std::size_t) noexcept { return false; }
void put_into_core_dumps(void*, std::size_t, bool) noexcept {}
namespace {

// All threads of this process that sleep in sleep_while(). They share one condition, so wake()
// wakes all.
struct Sleepers {
  std::mutex mutex;
  std::condition_variable woken;
};
Sleepers& sleepers() {
  static Sleepers sleepers;
  return sleepers;
}

}  // namespace

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::milliseconds limit) {
  std::unique_lock lock(sleepers().mutex);
  if (word == seen) sleepers().woken.wait_for(lock, limit);
}
void wake(const std::atomic<std::uint32_t>&) {
  const std::lock_guard lock(sleepers().mutex);
  sleepers().woken.notify_all();
}

#endif

// The next five functions read /proc. A system without it, such as macOS, gets the answers that the
// header names for that.
int count_threads() {
  // The number of threads is field 20 of this file's line (proc(5)). An emulator of another
  // processor writes this line for the program, with zeros at least, while /proc/self/task also
  // lists the emulator's threads. Field 2 is a name in parentheses, which may contain any
  // characters.
  std::string text;
  if (!std::getline(std::ifstream("/proc/self/stat"), text, '\0')) return 1;  // without /proc
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  return std::max(std::stoi(*std::next(std::istream_iterator<std::string>(fields), 20 - 3)), 1);
}

std::uint64_t program_fingerprint() {
  return std::filesystem::exists("/proc/self/exe") ? fingerprint_of("/proc/self/exe") : 0;
}

std::string process_space() {
  // Without memory a stream would not open, and the ranks would seem to be on several machines.
  std::array<char, 64> boot{}, space{};
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const bool told = read(file, boot.data(), boot.size() - 1) > 0 &&
                    readlink("/proc/self/ns/pid", space.data(), space.size() - 1) > 0;
  close(file);
  return told ? std::string(boot.data()) + space.data() : "";
}

int open_file_of(pid_t process, int descriptor) {
  return open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(), O_RDWR | O_CLOEXEC);
}

std::string congestion_control() {
  std::string name = "unknown";
  std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> name;
  return name;
}

int count_cores([[maybe_unused]] const std::string& root) {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t allowed;  // has room for 1,024 cores; on a larger machine the call may fail
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) cores = CPU_COUNT(&allowed);
  // cgroup 2 says "200000 100000" or "max 100000". cgroup 1 has a file for each number.
  const std::string cgroup = root + "/sys/fs/cgroup";
  double quota = 0, period = 0;
  if (!(std::ifstream(cgroup + "/cpu.max") >> quota >> period)) {
    std::ifstream(cgroup + "/cpu/cpu.cfs_quota_us") >> quota;
    std::ifstream(cgroup + "/cpu/cpu.cfs_period_us") >> period;
  }
  if (quota > 0 && period > 0) cores = std::min(cores, static_cast<int>(quota / period));
#endif
  return std::max(1, cores);
}

// The functions below depend on the C library, not on the system.

void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest value that glibc accepts
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

void give_back_freed_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

std::string name_signal(int number) {
#if defined(__GLIBC__)
  const char* const name = sigabbrev_np(number);
  return fmt::format("signal {} (SIG{})", number, name != nullptr ? name : "?");
#else
  return fmt::format("signal {} ({})", number, strsignal(number));
#endif
}

}  // namespace nanofsdp
