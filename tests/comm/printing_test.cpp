#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "comm/run_ranks.h"

// Ranks that are processes print into the buffer of their own standard output.

namespace nanofsdp::comm {
namespace {

TEST(RunRanks, LoseNothingThatTheyHavePrintedIntoAFile) {
  ::testing::internal::CaptureStdout();  // a line without an end stays in the buffer
  const int exit_code =
      run_ranks({.ranks = 2}, [](Context& context, std::unique_ptr<Communicator>) {
        std::printf("rank %d;", context.rank);
      });
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(exit_code, 0);
  for (const char* line : {"rank 0;", "rank 1;"}) {
    const std::size_t at = printed.find(line);
    EXPECT_NE(at, printed.npos) << printed;
    EXPECT_EQ(printed.find(line, at + 1), printed.npos) << printed;
  }
}

}  // namespace
}  // namespace nanofsdp::comm
