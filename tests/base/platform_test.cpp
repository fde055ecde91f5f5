#include "base/platform.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#if defined(__linux__)
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

}  // namespace
}  // namespace nanofsdp
#endif
