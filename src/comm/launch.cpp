#include "comm/launch.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "comm/communicator.h"
#include "comm/platform.h"

namespace nanofsdp::comm {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kSettle = 1s;  // how long a consequence waits for its cause to show
constexpr auto kGrace = 2s;   // between SIGTERM and SIGKILL

// A directory for this process's user alone, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    path_ = (std::filesystem::temp_directory_path() / "nanofsdp-XXXXXX").string();
    NANOFSDP_CHECK(mkdtemp(path_.data()) != nullptr, .what = "rendezvous directory " + path_,
                   .got = std::strerror(errno), .hint = "set TMPDIR to a writable directory");
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Holds back the signals that the parent takes one by one; as before when it goes, or in a child.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&set_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    // Where a parent ignored it, the system would reap our children before we can ask.
    child_before_ = std::signal(SIGCHLD, SIG_DFL);
  }
  ~HeldSignals() { release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  void release() const {
    std::signal(SIGCHLD, child_before_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  const sigset_t& set() const { return set_; }

 private:
  sigset_t set_;
  sigset_t before_;
  void (*child_before_)(int);
};

// What a child tells its parent through a pipe when its body is done.
struct Report {
  char exit_code = 0;
  bool consequence = false;  // of another rank's failure
  std::array<char, 3000> text{};

  void fail(int code, const char* what, bool is_consequence = false) {
    exit_code = static_cast<char>(code);
    consequence = is_consequence;
    std::snprintf(text.data(), text.size(), "%s", what);
  }
};
static_assert(sizeof(Report) < 4096, "fits into any pipe at once: write() cannot block");

using Body = std::function<void(const Rendezvous&, int rank)>;

Report report_of(const Body& body, const Rendezvous& rendezvous, int rank) {
  Report report;
  try {
    body(rendezvous, rank);
  } catch (const UsageError& e) {
    report.fail(2, e.what());
  } catch (const CommError& e) {
    report.fail(1, e.what(), is_consequence(e.kind()));
  } catch (const std::exception& e) {
    report.fail(1, e.what());
  } catch (...) {
    report.fail(1, "threw something that is no std::exception");
  }
  return report;
}

std::string hint_for_signal(int number) {
  if (number == SIGKILL) return "if nobody did that, memory ran out: use fewer ranks or less batch";
  if (number == SIGTERM || number == SIGHUP) return "somebody ended it";
  return "that is a bug: please report it with the output of a debug build";
}

// The running ranks. Whoever is left when it is destroyed is killed and reaped.
class Family {
 public:
  Family(const HeldSignals& signals, int world_size) : signals_(signals) {
    children_.reserve(static_cast<std::size_t>(world_size));
  }
  ~Family() {
    signal_all(SIGKILL);
    for (Child& child : children_) {
      if (child.running) waitpid(child.pid, nullptr, 0);
      close(child.reports);
    }
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  void start(const Body& body, const Rendezvous& rendezvous) {
    int ends[2];
    NANOFSDP_CHECK(pipe(ends) == 0, .what = "pipe", .got = std::strerror(errno));
    const pid_t parent = getpid();
    std::fflush(nullptr);  // or parent and child would both write what is buffered
    const pid_t pid = fork();
    if (pid == 0) {
      die_with_parent(parent);
      signals_.release();
      close(ends[0]);
      for (const Child& sibling : children_) close(sibling.reports);
      const Report report = report_of(body, rendezvous, static_cast<int>(children_.size()));
      std::fflush(nullptr);
      const bool told = write(ends[1], &report, sizeof report) == sizeof report;
      _exit(told ? report.exit_code : 1);
    }
    close(ends[1]);
    if (pid < 0) close(ends[0]);
    NANOFSDP_CHECK(pid > 0, .what = "fork", .got = std::strerror(errno),
                   .hint = "use fewer ranks, or raise the limit on processes (ulimit -u)");
    children_.push_back({.pid = pid, .reports = ends[0]});
  }

  Outcome wait() {
    while (any_running()) {
      const auto signal = take_signal(signals_.set(), 100ms);
      if (signal && *signal != SIGCHLD) interrupted(*signal);
      for (std::size_t rank = 0; rank < children_.size(); ++rank) reap(static_cast<int>(rank));

      const auto now = Clock::now();
      const bool told = outcome_ && !consequence_;
      if (!ending_ && outcome_ && (told || now >= failed_at_ + kSettle)) end_all(now);
      if (ending_ && now >= kill_at_) signal_all(SIGKILL);
    }
    return outcome_.value_or(Outcome{});
  }

 private:
  struct Child {
    pid_t pid = 0;
    int reports = -1;  // the pipe's reading end
    bool running = true;
  };

  bool any_running() const {
    for (const Child& child : children_) {
      if (child.running) return true;
    }
    return false;
  }

  void signal_all(int number) {
    for (const Child& child : children_) {
      if (child.running) kill(child.pid, number);
    }
  }

  void end_all(Clock::time_point now) {
    ending_ = true;
    kill_at_ = now + kGrace;
    signal_all(SIGTERM);
  }

  void interrupted(int number) {
    outcome_ = Outcome{.exit_code = 128 + number};
    consequence_ = false;
    if (!ending_) end_all(Clock::now());
  }

  void reap(int rank) {
    Child& child = children_[static_cast<std::size_t>(rank)];
    int status = 0;
    if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid) return;
    child.running = false;
    Report report;
    const bool reported = read(child.reports, &report, sizeof report) == sizeof report;
    if (WIFSIGNALED(status)) {
      if (!ending_) killed(rank, WTERMSIG(status));
    } else if (!reported) {
      failed({1, fmt::format("rank {} ended with exit code {} in the middle of its work", rank,
                             WEXITSTATUS(status))},
             false);
    } else if (report.exit_code != 0) {
      std::string text = report.text.data();
      // A wrong option is nobody's in particular, and some messages say the rank themselves.
      if (report.exit_code != 2 && text.rfind("rank", 0) != 0) {
        text = fmt::format("rank {}: {}", rank, text);
      }
      failed({report.exit_code, std::move(text)}, report.consequence);
    }
  }

  void killed(int rank, int number) {
    // Ctrl-C goes to the whole foreground group: children may die of it before we see it.
    if (number == SIGINT) return interrupted(number);
    failed({128 + number, fmt::format("rank {} was killed by {}; {}", rank, name_signal(number),
                                      hint_for_signal(number))},
           false);
  }

  // Keeps the first failure, but a cause replaces a consequence.
  void failed(Outcome outcome, bool consequence) {
    if (outcome_ && (consequence || !consequence_)) return;
    if (!outcome_) failed_at_ = Clock::now();
    outcome_ = std::move(outcome);
    consequence_ = consequence;
  }

  const HeldSignals& signals_;
  std::vector<Child> children_;
  std::optional<Outcome> outcome_;
  bool consequence_ = false;  // outcome_ is one
  Clock::time_point failed_at_;
  bool ending_ = false;
  Clock::time_point kill_at_;
};

void require_single_thread() {
  // A thread that has just been joined may still be on its way out.
  for (int i = 0; i < 100 && count_threads() > 1; ++i) std::this_thread::sleep_for(1ms);
  NANOFSDP_CHECK(count_threads() == 1, .what = "launch of local ranks",
                 .expected = "a process without other threads",
                 .got = fmt::format("{} threads", count_threads()),
                 .hint = "launch before anything starts one: a fork copies only its own thread");
}

}  // namespace

Outcome run_processes(int world_size, const Body& body) {
  NANOFSDP_CHECK(world_size >= 1, .what = "launch of local ranks", .expected = "at least 1 rank",
                 .got = fmt::format("{}", world_size));
  require_single_thread();
  const HeldSignals signals;
  const TemporaryDirectory directory;
  Family family(signals, world_size);
  for (int rank = 0; rank < world_size; ++rank) family.start(body, {directory.path()});
  return family.wait();
}

int launch_processes(int world_size, const Body& body) {
  const Outcome outcome = run_processes(world_size, body);
  if (!outcome.message.empty()) std::fprintf(stderr, "nanofsdp: %s\n", outcome.message.c_str());
  return outcome.exit_code;
}

}  // namespace nanofsdp::comm
