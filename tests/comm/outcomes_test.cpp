#include <gtest/gtest.h>

#include <string>

#include "base/check.h"
#include "comm/local.h"
#include "comm/run_ranks.h"

// Tests which error the caller of several ranks gets.

namespace nanofsdp::comm::outcomes_test {
namespace {

// Errors between ranks name their rank. If several ranks have one, the lowest rank's is told.
TEST(Outcome, OfThreadsIsTheErrorOfTheLowestRank) {
  for (const int first : {0, 1, 2}) {
    try {
      launch_threads(4, 1, [&](Context& context, auto) {
        if (context.rank >= first)
          throw CommError(CommError::Kind::mismatch, "rank " + std::to_string(context.rank));
      });
      ADD_FAILURE() << "no error";
    } catch (const CommError& error) {
      EXPECT_EQ(std::string(error.what()), "rank " + std::to_string(first));
    }
  }
}

#ifndef NANOFSDP_TSAN  // the thread sanitizer does not see inside Gloo
// All ranks find at the same time that a run cannot go on, so the message names none of them.
TEST(Outcome, OfARunThatCannotGoOnNamesNoRank) {
  ::testing::internal::CaptureStderr();
  const int code = run_ranks({.ranks = 2, .backend = default_backend()}, [](Context&, auto) {
    throw RunError({.what = "loss", .expected = "a number", .got = "nan"});
  });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "nanofsdp: loss: expected a number, got nan\n");
}
#endif

}  // namespace
}  // namespace nanofsdp::comm::outcomes_test
