#include "base/platform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <sys/prctl.h>

#include "support/temporary_directory.h"

namespace nanofsdp {
namespace {

// Linux writes the number of threads behind the name of the program, and this name may have any
// characters.
TEST(Platform, CountsThreadsWhateverTheProgramIsCalled) {
  std::string line;
  std::getline(std::ifstream("/proc/self/stat"), line);
  if (line.find(") R ") == std::string::npos) GTEST_SKIP() << "an emulator leaves the line empty";
  char name[16];
  prctl(PR_GET_NAME, name);
  prctl(PR_SET_NAME, "a) S 1 (b) 2");
  EXPECT_EQ(count_threads(), 1);
  std::atomic<bool> stop{false};
  std::thread other([&] { stop.wait(false); });
  EXPECT_EQ(count_threads(), 2);
  stop = true;
  stop.notify_one();
  other.join();
  prctl(PR_SET_NAME, name);
}

// `taskset`, a container or a batch system may allow a process some of the machine's cores only.
TEST(Platform, CountsTheCoresThatThisProcessMayUse) {
  cpu_set_t all, some;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(count_cores(), CPU_COUNT(&all));
  CPU_ZERO(&some);
  for (int core = 0, count = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    CPU_SET(core, &some);
    ASSERT_EQ(sched_setaffinity(0, sizeof some, &some), 0);
    EXPECT_EQ(count_cores(), ++count);
  }
  sched_setaffinity(0, sizeof all, &all);
}

// `docker run --cpus=1.5` leaves a process all cores, but not all of their time.
TEST(Platform, CountsTheCoresWhoseTimeAContainerMayUse) {
  const testing::TemporaryDirectory directory;
  const std::string first = directory.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
                    second = directory.file("sys/fs/cgroup/cpu/cpu.cfs_period_us");
  std::filesystem::create_directories(directory.file("sys/fs/cgroup"));
  const auto counted = [&](const std::string& quota, const std::string& period) {
    std::filesystem::remove_all(directory.file("sys/fs/cgroup/cpu"));
    std::ofstream(directory.file("sys/fs/cgroup/cpu.max")) << quota << " " << period << "\n";
    const int newer = count_cores(directory.file(""));
    std::filesystem::remove(directory.file("sys/fs/cgroup/cpu.max"));
    std::filesystem::create_directory(directory.file("sys/fs/cgroup/cpu"));
    std::ofstream(first) << (quota == "max" ? "-1" : quota) << "\n";
    std::ofstream(second) << period << "\n";
    EXPECT_EQ(count_cores(directory.file("")), newer) << quota;
    return newer;
  };
  const int all = count_cores(directory.file("nowhere"));
  EXPECT_EQ(counted("max", "100000"), all);
  EXPECT_EQ(counted("12800000", "100000"), std::min(all, 128));
  EXPECT_EQ(counted("200000", "100000"), std::min(all, 2));
  EXPECT_EQ(counted("150000", "100000"), 1);
  EXPECT_EQ(counted("1000", "100000"), 1);
  EXPECT_EQ(counted("0", "100000"), all);  // no limit that a system would set
  EXPECT_EQ(counted("100000", "0"), all);
}

}  // namespace
}  // namespace nanofsdp
#endif
