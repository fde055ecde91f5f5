#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/gloo.h"
#include "launch/launch.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

// Tests which traces ranks leave that share memory, and which processes can read it.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using namespace std::chrono_literals;

class SharedPrivacy : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef NANOFSDP_TSAN
    GTEST_SKIP() << "the thread sanitizer does not see other processes";
#endif
  }
};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The file has no name and no descriptor. Only the ranks have a mapping while they run, and the
// launcher has none.
TEST_F(SharedPrivacy, LeavesNoFileAnywhere) {
  run_ranks(Backend::shared, 2, [](Context& context, Communicator& world) {
    const Buffer memory = context.buffer(MemoryClass::communication, 1 << 20);
    EXPECT_NE(text_of("/proc/self/maps").find("memfd:nanofsdp"), std::string::npos);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      EXPECT_EQ(std::filesystem::read_symlink(entry, gone).string().find("memfd"),
                std::string::npos);
    }
    world.barrier(*context.compute).synchronize();
  });
  EXPECT_EQ(text_of("/proc/self/maps").find("memfd:nanofsdp"), std::string::npos);
}

// The data that a process can get from another one's memory, by all ways of the system.
std::string ways_into(pid_t process, const void* address) {
  const std::string proc = "/proc/" + std::to_string(process);
  std::string ways;
  const auto tried = [&](const char* way, bool works) { ways += works ? std::string(way) : ""; };
  char byte = 0;
  const iovec mine{&byte, 1}, theirs{const_cast<void*>(address), 1};
  tried("process_vm_readv ", process_vm_readv(process, &mine, 1, &theirs, 1, 0) == 1);
  tried("mem ", open((proc + "/mem").c_str(), O_RDONLY) >= 0);
  for (const char* folder : {"/fd", "/map_files"}) {
    std::error_code denied;
    for (const auto& file : std::filesystem::directory_iterator(proc + folder, denied)) {
      tried(folder, open(file.path().c_str(), O_RDONLY) >= 0);
      break;
    }
  }
  if (ptrace(PTRACE_SEIZE, process, nullptr, nullptr) == 0) {
    ptrace(PTRACE_DETACH, process, nullptr, nullptr);
    ways += "ptrace";
  }
  return ways;
}

// Tries them in a process of another user, if this user is root and can choose; otherwise in a
// child.
std::string ways_of(uid_t user, pid_t process, const void* address) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    if (getuid() == 0 && setuid(user) != 0) _exit(1);
    const std::string ways = ways_into(process, address);
    _exit(write(ends[1], ways.data(), ways.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string ways(200, '\0');
  ways.resize(static_cast<std::size_t>(std::max<ssize_t>(read(ends[0], ways.data(), 200), 0)));
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0 ? ways : "could not try";
}

constexpr uid_t kUser = 65'534, kOther = 65'533;  // not root, who may read everything

// A process like any other program; with `share`, a rank that shares memory with another rank.
class Watched {
 public:
  Watched(launch::Store& store, bool share) {
    if (getuid() == 0 && setuid(kUser) != 0) throw std::runtime_error("setuid");
    prctl(PR_SET_DUMPABLE, 1);  // the state after exec, because setuid has switched it off
    if (!share) return;
    context_ = std::make_unique<Context>(store.rank(), 2);
    world_ = comm::make_gloo(*context_, store, {.transport = comm::Transport::shared});
  }

  // A buffer that is shared with the other rank.
  Buffer memory(std::int64_t numbers) const {
    return context_->buffer(MemoryClass::communication, numbers);
  }

 private:
  std::unique_ptr<Context> context_;
  std::unique_ptr<Communicator> world_;
};

// Runs two such processes while `look` looks at each. @returns what it saw
template <class Look>
std::vector<std::string> looked_at(bool share, const Look& look) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t launcher = fork();
  if (launcher == 0) {
    const launch::Outcome outcome = launch::run_processes(2, [&](launch::Store& store) {
      const Watched rank(store, share);
      const pid_t self = getpid();
      if (write(ends[1], &self, sizeof self) != sizeof self) _exit(1);
      std::this_thread::sleep_for(60s);
    });
    _exit(outcome.exit_code);
  }
  std::vector<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    pid_t rank = 0;
    if (read(ends[0], &rank, sizeof rank) != sizeof rank) throw std::runtime_error("no rank");
    seen.push_back(look(rank));
  }
  kill(launcher, SIGTERM);
  waitpid(launcher, nullptr, 0);
  close(ends[0]), close(ends[1]);
  return seen;
}

// A rank that shares memory is like any process of its user: this user may read it, as debuggers
// do, and no other user may.
TEST_F(SharedPrivacy, ItsUserCanAttachAndReadAndNobodyElse) {
  static const int word = 7;  // it has the same address in all of them, because they are forks
  const auto look = [](uid_t user) {
    return [user](pid_t rank) { return ways_of(user, rank, &word); };
  };
  const std::vector<std::string> as_any = looked_at(false, look(kUser));
  EXPECT_EQ(looked_at(true, look(kUser)), as_any);
  if (getuid() != 0) return;
  EXPECT_NE(as_any[0], "");  // otherwise no process could look at any, and the test could not fail
  const std::vector<std::string> none(2);
  EXPECT_EQ(looked_at(true, look(kOther)), none);
}

// The output of a program that runs as the ranks' user, up to the word.
std::string output_of(std::vector<std::string> command, const std::string& word) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1), dup2(ends[1], 2);
    close(ends[0]), close(ends[1]);
    if (getuid() == 0 && setuid(kUser) != 0) _exit(1);
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t n = 1; n > 0 && text.find(word) == text.npos;) {
    n = read(ends[0], part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
  kill(child, SIGTERM);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

// The test is skipped if the tools are missing, or may not attach to any process.
TEST_F(SharedPrivacy, DebuggersAttachToARank) {
  const auto gdb = [](pid_t rank) {
    const std::string value = "$1 = 42";
    const std::string text = output_of({"gdb", "-nx", "-batch", "-p", std::to_string(rank), "-ex",
                                        "info threads", "-ex", "print 6 * 7"},
                                       value);
    return (text.find("LWP") != text.npos ? "threads " : "") +
           (text.find(value) != text.npos ? value : "");
  };
  const auto strace = [](pid_t rank) {
    const std::string word = " attached";
    const std::string text = output_of({"strace", "-f", "-p", std::to_string(rank)}, word);
    return text.find(word) != text.npos ? word : "";
  };
  EXPECT_EQ(looked_at(true, gdb), looked_at(false, gdb));
  EXPECT_EQ(looked_at(true, strace), looked_at(false, strace));
}

// The dump has the rank's own allocations, and not all the memory that the file could have.
TEST_F(SharedPrivacy, ARankThatCrashesLeavesACoreDump) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer forbids core dumps";
#endif
  const TemporaryDirectory directory;
  std::filesystem::permissions(directory.file(""), std::filesystem::perms::all);
  constexpr int kNoDumps = 77;
  const pid_t launcher = fork();
  if (launcher == 0) {
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    const bool may = setrlimit(RLIMIT_CORE, &all) == 0 && chdir(directory.file("").c_str()) == 0;
    const std::string pattern = text_of("/proc/sys/kernel/core_pattern");
    if (!may || pattern.empty() || pattern.find_first_of("|/") != pattern.npos) _exit(kNoDumps);
    const launch::Outcome outcome = launch::run_processes(2, [&](launch::Store& store) {
      const Watched rank(store, true);
      const Buffer memory = rank.memory(1000);
      std::ranges::iota_view numbers(0, 1000);
      std::ranges::copy(numbers, memory.tensor({1000}).data<float>());
      if (store.rank() == 1) std::abort();
      std::this_thread::sleep_for(60s);
    });
    _exit(outcome.exit_code);
  }
  int status = 0;
  waitpid(launcher, &status, 0);
  if (WEXITSTATUS(status) == kNoDumps) GTEST_SKIP() << "core dumps go elsewhere";
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGABRT);
  std::vector<std::filesystem::path> dumps(std::filesystem::directory_iterator(directory.file("")),
                                           {});
  ASSERT_EQ(dumps.size(), 1u);
  struct stat file {};
  ASSERT_EQ(stat(dumps[0].c_str(), &file), 0);
  EXPECT_LT(file.st_blocks * 512, 512 << 20);
  const std::string dump = text_of(dumps[0]);
  std::vector<float> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  EXPECT_NE(dump.find({reinterpret_cast<const char*>(numbers.data()), 4000}), dump.npos);
}

}  // namespace
}  // namespace nanofsdp::testing
