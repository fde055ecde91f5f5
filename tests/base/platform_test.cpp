#include "base/platform.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <sys/prctl.h>

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
}

}  // namespace
}  // namespace nanofsdp
#endif
