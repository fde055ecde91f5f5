#include "comm/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <thread>

#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/prctl.h>
#endif

namespace nanofsdp::comm {

#if defined(__linux__)

int count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  auto threads = static_cast<int>(std::distance(begin(tasks), end(tasks)));
#if defined(__SANITIZE_THREAD__)
  --threads;  // the sanitizer's own
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  --threads;
#endif
#endif
  return threads;
}

void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL);  // it died before the line above
}

std::optional<int> take_signal(const sigset_t& set, std::chrono::milliseconds timeout) {
  const timespec limit{.tv_sec = timeout.count() / 1000,
                       .tv_nsec = timeout.count() % 1000 * 1'000'000};
  const int number = sigtimedwait(&set, nullptr, &limit);
  return number > 0 ? std::optional(number) : std::nullopt;
}

#else

int count_threads() { return 1; }

void die_with_parent(pid_t) {}

std::optional<int> take_signal(const sigset_t& set, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  do {
    sigset_t pending;
    sigpending(&pending);
    for (int number = 1; number < NSIG; ++number) {
      if (sigismember(&set, number) != 1 || sigismember(&pending, number) != 1) continue;
      int taken = 0;
      sigwait(&set, &taken);
      return taken;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (std::chrono::steady_clock::now() < deadline);
  return std::nullopt;
}

#endif

void run_with_background_threads(const std::function<void()>& work) {
  std::exception_ptr error;
  std::thread([&] {
#if defined(__linux__)
    // Threads inherit the class of the thread that starts them. Needs no privilege; if it is
    // refused all the same, communication is slower and right.
    const sched_param parameters{};
    sched_setscheduler(0, SCHED_BATCH, &parameters);
#endif
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

std::string name_signal(int number) {
  struct Name {
    int number;
    const char* name;
  };
  static constexpr Name kNames[] = {
      {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},  {SIGHUP, "SIGHUP"},
      {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},  {SIGILL, "SIGILL"},
      {SIGFPE, "SIGFPE"},   {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"}};
  const auto* const known = std::find_if(std::begin(kNames), std::end(kNames),
                                         [&](const Name& name) { return name.number == number; });
  if (known == std::end(kNames)) return fmt::format("signal {}", number);
  return fmt::format("signal {} ({})", number, known->name);
}

}  // namespace nanofsdp::comm
