#include "launch/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/platform.h"

namespace nanofsdp::launch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kSettle = 1s;  // how long a consequence waits for its cause
constexpr auto kGrace = 2s;   // the time between SIGTERM and SIGKILL
constexpr std::array kHeld = {SIGINT, SIGTERM, SIGHUP};  // signals that wait as long as ranks run

// A child's report to its parent when its body is done. It lies in memory that both share.
struct Report {
  bool told = false;  // whether it is done
  int exit_code = 0;
  bool consequence = false;  // another rank failed first
  std::array<char, 3000> text{};
};

// Adds to an error between ranks the first failure. A rank that has lost another rank, or has
// waited too long for it, does not know why. The other rank may have ended because of a third one.
std::string beside_cause(const std::string& first, std::string why) {
  // The first failure may be this one, or one that this text tells already.
  const bool said = why.find(first) != std::string::npos ||
                    first.find(why.substr(0, why.find('\n'))) != std::string::npos;
  if (said) return why;
  const bool both = why.find(kInVain) != why.npos && first.find(kInVain) != first.npos;
  if (both) return why + "\n  before that, " + first;  // the last calls of this rank are news, too
  return why.insert(std::min(why.find('\n'), why.size()), "; before that, " + first);
}

// Runs the body. If it fails, the other ranks are told why.
Report report_of(const Body& body, const Rendezvous& rendezvous) {
  Report report{.told = true};
  std::optional<Store> store;
  try {
    const auto work = [&] { return body(store.emplace(rendezvous)), 0; };
    with_named_errors(std::cref(work));  // a std::function of a reference takes no memory
    store->leave();
  } catch (const std::exception& e) {
    const auto* const between_ranks = dynamic_cast<const RankError*>(&e);
    const bool usage = dynamic_cast<const UsageError*>(&e) != nullptr;
    const bool of_all = usage || dynamic_cast<const RunError*>(&e) != nullptr;
    report.exit_code = usage ? 2 : 1;
    report.consequence = between_ranks != nullptr && between_ranks->consequence;
    std::string why = e.what();
    if (store) store->fail(why);
    if (store && between_ranks != nullptr) why = beside_cause(store->loss(0ms), why);
    // Some messages belong to all ranks, and those of a RankError name their rank.
    if (!of_all && between_ranks == nullptr) why = fmt::format("rank {}: {}", rendezvous.rank, why);
    why.copy(report.text.data(), report.text.size() - 1);  // the last character stays 0
  }
  return report;
}

const char* hint_for(int signal) {
  if (signal == SIGKILL) return "if nobody did that, memory ran out: use fewer ranks or less batch";
  if (signal == SIGXCPU) return "its CPU time has reached the limit that `ulimit -t` shows";
  if (signal == SIGBUS) return "perhaps /dev/shm or a disk is full, or a file that it read was cut";
  if (signal == SIGUSR1 || signal == SIGUSR2) return "schedulers send it before time is up";
  const bool bug = signal == SIGSEGV || signal == SIGABRT || signal == SIGFPE || signal == SIGILL;
  return bug ? "this is a bug: please report a debug build's output" : "somebody ended it";
}

// The running ranks. As long as this object lives, the signals of kHeld are blocked, so that it can
// take them one by one. The destructor kills and reaps the ranks that still run.
class Children {
 public:
  explicit Children(int size) {
    void* const memory = mmap(nullptr, sizeof(Report) * static_cast<std::size_t>(size),
                              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    NANOFSDP_CHECK(memory != MAP_FAILED, .what = "ranks' reports", .got = std::strerror(errno));
    reports_ = {static_cast<Report*>(memory), static_cast<std::size_t>(size)};  // all zeros
    children_.reserve(reports_.size());  // from now on, no child that was started can be forgotten
    sigemptyset(&held_);
    for (const int number : kHeld) sigaddset(&held_, number);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
    // If it were ignored, the system would reap our children before we can ask for them.
    std::signal(SIGCHLD, SIG_DFL);
  }
  Children(Children&&) = delete;  // so it cannot be copied either
  ~Children() {
    signal_all(SIGKILL);
    for (const pid_t child : children_)
      if (child != 0) waitpid(child, nullptr, 0);
    munmap(reports_.data(), reports_.size_bytes());
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  void start(const Body& body, const Rendezvous& rendezvous) {
    const pid_t parent = getpid();
    std::fflush(nullptr);  // otherwise parent and child would both write the buffered text
    const pid_t pid = fork();
    if (pid == 0) {
      die_with_parent(parent);
      pthread_sigmask(SIG_SETMASK, &before_, nullptr);
      const Report report = report_of(body, rendezvous);
      std::fflush(nullptr);
      reports_[children_.size()] = report;
      _exit(report.exit_code);
    }
    NANOFSDP_CHECK(pid > 0, .what = "fork", .got = std::strerror(errno),
                   .hint = "use fewer ranks, or raise the limit on processes (ulimit -u)");
    children_.push_back(pid);
  }

  Outcome wait() {
    while (std::ranges::any_of(children_, std::identity())) {
      std::this_thread::sleep_for(5ms);
      if (const int number = take_signal()) interrupted(number);
      for (std::size_t rank = 0; rank < children_.size(); ++rank) reap(static_cast<int>(rank));
      const auto now = Clock::now();
      if (!kill_at_ && outcome_.exit_code != 0 && (!consequence_ || now >= failed_at_ + kSettle)) {
        kill_at_ = now + kGrace;
        signal_all(SIGTERM);
      }
      if (kill_at_ && now >= kill_at_) signal_all(SIGKILL);
    }
    return outcome_;
  }

 private:
  // Takes a signal that has arrived. Returns its number, or 0 if there is none or if this process
  // ignores it: the system keeps a blocked signal even then.
  int take_signal() const {
    sigset_t arrived;
    sigpending(&arrived);
    int taken = 0;
    const auto is_here = [&](int number) { return sigismember(&arrived, number) == 1; };
    if (std::ranges::any_of(kHeld, is_here)) sigwait(&held_, &taken);
    struct sigaction action {};
    sigaction(taken, nullptr, &action);
    return action.sa_handler == SIG_IGN ? 0 : taken;
  }

  void signal_all(int number) {
    for (const pid_t child : children_)
      if (child != 0) kill(child, number);
  }

  void reap(int rank) {
    pid_t& child = children_[static_cast<std::size_t>(rank)];
    int status = 0;
    if (child == 0 || waitpid(child, &status, WNOHANG) != child) return;
    child = 0;
    const Report& report = reports_[static_cast<std::size_t>(rank)];
    if (WIFSIGNALED(status)) {
      const int number = WTERMSIG(status);
      // Ctrl-C goes to the whole foreground group, so children may die of it before we see it. A
      // reader of the output, such as `head`, may end when it has enough, which is not an error.
      if (number == SIGINT || number == SIGPIPE) return interrupted(number);
      if (kill_at_) return;
      failed(128 + number, fmt::format("rank {} was killed by {}; {}", rank, name_signal(number),
                                       hint_for(number)));
    } else if (!report.told) {
      failed(1, fmt::format("rank {} ended with exit code {} in the middle of its work", rank,
                            WEXITSTATUS(status)));
    } else if (report.exit_code != 0) {
      failed(report.exit_code, report.text.data(), report.consequence);
    }
  }

  // Keeps the first failure, except that a cause replaces a consequence.
  void failed(int exit_code, const std::string& message, bool consequence = false) {
    if (outcome_.exit_code == 0) failed_at_ = Clock::now();
    if (outcome_.exit_code != 0 && (consequence || !consequence_)) return;
    outcome_ = {exit_code, message};
    consequence_ = consequence;
  }

  void interrupted(int number) {
    outcome_ = {.exit_code = 128 + number};
    consequence_ = false;
  }

  sigset_t held_, before_;       // kHeld; the signals that were blocked before
  std::span<Report> reports_;    // one for each rank
  std::vector<pid_t> children_;  // the process ids of the ranks; 0: it has ended
  Outcome outcome_;
  bool consequence_ = false;  // whether outcome_ is a consequence
  Clock::time_point failed_at_;
  std::optional<Clock::time_point> kill_at_;  // is set when ranks are being ended
};

void require_single_thread() {
  // A thread that has just been joined may still exist for a moment.
  for (int i = 0; i < 100 && count_threads() > 1; ++i) std::this_thread::sleep_for(1ms);
  NANOFSDP_CHECK(count_threads() == 1, .what = "launch of local ranks",
                 .expected = "a process without other threads",
                 .got = fmt::format("{} threads", count_threads()),
                 .hint = "launch before anything starts one: a fork copies only its own thread");
}

}  // namespace

Outcome run_processes(int size, const Body& body, std::chrono::milliseconds patience) {
  NANOFSDP_CHECK(size >= 1, "launch of local ranks", "at least 1 rank", fmt::to_string(size));
  require_single_thread();
  std::random_device draw;
  const auto token = fmt::format("{:08x}{:08x}{:08x}{:08x}", draw(), draw(), draw(), draw());
  Rendezvous rendezvous{.token = token, .size = size, .local_size = size, .patience = patience};
  Children children(size);
  {
    // It listens before there are ranks, so no rank comes too early, and no other process can take
    // the port.
    const Socket listener = listen_on(rendezvous.host, 0);
    rendezvous.port = listener.local_port();
    rendezvous.listener = listener.descriptor();
    for (; rendezvous.rank < size; ++rendezvous.rank) children.start(body, rendezvous);
  }
  return children.wait();
}

Outcome join(const Rendezvous& rendezvous, const Body& body) {
  const Report report = report_of(body, rendezvous);
  return {report.exit_code, report.text.data()};
}

int tell(const Outcome& outcome) {
  if (!outcome.message.empty()) std::fprintf(stderr, "nanofsdp: %s\n", outcome.message.c_str());
  return outcome.exit_code;
}

}  // namespace nanofsdp::launch
