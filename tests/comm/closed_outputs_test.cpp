#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "comm/run_ranks.h"

// A program may be started without an input or an output.

namespace nanofsdp::comm::closed_outputs_test {
namespace {

// Else a connection between ranks would take the place of an output, and get what is printed.
TEST(RunRanks, MayHaveClosedOutputs) {
#ifdef NANOFSDP_TSAN
  GTEST_SKIP() << "the thread sanitizer does not see inside Gloo";
#endif
  for (const std::vector<int>& closed :
       std::vector<std::vector<int>>{{0, 1, 2}, {1}, {2}, {0, 2}}) {
    const pid_t child = fork();
    if (child == 0) {
      for (const int file : closed) close(file);
      _exit(run_ranks({.ranks = 2}, [](Context& context, std::unique_ptr<Communicator> world) {
        for (std::FILE* output : {stdout, stderr}) {
          std::fputs("no message between ranks\n", output);
          std::fflush(output);
        }
        world->barrier(*context.compute).synchronize();
      }));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << closed.size() << " closed, among them " << closed[0];
  }
}

}  // namespace
}  // namespace nanofsdp::comm::closed_outputs_test
