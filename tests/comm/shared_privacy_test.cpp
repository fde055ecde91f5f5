#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/gloo.h"
#include "launch/launch.h"
#include "support/ranks.h"

// What ranks that share memory leave behind, and who may look into it.

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

// No name, no number: while it runs, only the mapping; and not even that in the launcher.
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

// What a process can get of another one's memory: all ways that the system has.
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

// In a process of another user, if this is root's and there is a choice; else in a child.
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

constexpr uid_t kUser = 65'534, kOther = 65'533;  // any but root, who may read everything

// A process that is as any program: with `share`, a rank that shares memory with another.
class Watched {
 public:
  Watched(launch::Store& store, bool share) {
    if (getuid() == 0 && setuid(kUser) != 0) throw std::runtime_error("setuid");
    prctl(PR_SET_DUMPABLE, 1);  // as after exec: setuid has taken it back
    if (!share) return;
    context_ = std::make_unique<Context>(store.rank(), 2);
    world_ = comm::make_gloo(*context_, store, {.transport = comm::Transport::shared});
  }

 private:
  std::unique_ptr<Context> context_;
  std::unique_ptr<Communicator> world_;
};

// Neither another user nor another process of the same user gets at a rank that shares memory. (At
// a process as any other the same user gets in at least one way: the test can fail.)
TEST_F(SharedPrivacy, NobodyElseCanAttachOrRead) {
  for (const bool share : {false, true}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    static const int word = 7;  // at the same address in all of them, which are forks
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
    std::string same, other;
    for (int i = 0; i < 2; ++i) {
      pid_t rank = 0;
      ASSERT_EQ(read(ends[0], &rank, sizeof rank), static_cast<ssize_t>(sizeof rank));
      same += ways_of(kUser, rank, &word);
      if (getuid() == 0) other += ways_of(kOther, rank, &word);
    }
    kill(launcher, SIGTERM);
    waitpid(launcher, nullptr, 0);
    close(ends[0]), close(ends[1]);
    EXPECT_EQ(other, "");
    EXPECT_EQ(same.empty(), share) << same;
  }
}

}  // namespace
}  // namespace nanofsdp::testing
