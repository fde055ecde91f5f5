#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "base/platform.h"
#include "launch/launch.h"
#include "launch/party.h"

// One failure causes others. Whichever error a rank tells, the first cause is told beside it.

namespace nanofsdp::testing {
namespace {

TEST(Cause, IsToldInTheFirstLineOfWhatItSetOff) {
  if (count_threads() > 1) GTEST_SKIP() << "a sanitizer's thread: such a process is not forked";
  const launch::Outcome outcome = launch::run_processes(2, [](Store& store) {
    if (store.rank() == 1) {
      store.fail("the disk is full");
      std::this_thread::sleep_for(10s);  // until it is ended, because only rank 0 must tell of both
    }
    store.loss(10s);
    throw RankError("rank 0 waited in vain\n  rank 0: barrier 1", /*consequence=*/false);
  });
  EXPECT_EQ(outcome.exit_code, 1);
  const std::string first = outcome.message.substr(0, outcome.message.find('\n'));
  EXPECT_TRUE(
      first.starts_with("rank 0 waited in vain; before that, rank 1 failed: the disk is "
                        "full"))
      << outcome.message;
  EXPECT_TRUE(outcome.message.ends_with("\n  rank 0: barrier 1")) << outcome.message;
}

// Neither of the two may be the cause of the other, so each tells its own error and its last calls.
TEST(Cause, IsToldLastWhereTwoHaveWaitedInVain) {
  if (count_threads() > 1) GTEST_SKIP() << "a sanitizer's thread: such a process is not forked";
  const launch::Outcome outcome = launch::run_processes(2, [](Store& store) {
    const std::string mine = "rank " + number(store.rank()) + " waited 1 ms in vain for rank 2";
    if (store.rank() == 1) {
      store.fail(mine);
      std::this_thread::sleep_for(10s);  // until it is ended, because only rank 0 must tell of both
    }
    store.loss(10s);
    throw RankError(mine + "\n  rank 0: barrier 1", /*consequence=*/false);
  });
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(
      outcome.message.starts_with("rank 0 waited 1 ms in vain for rank 2\n"
                                  "  rank 0: barrier 1\n  before that, rank 1 failed: "
                                  "rank 1 waited 1 ms in vain for rank 2 ("))
      << outcome.message;
}

// A message between ranks has a limit. A longer reason is cut, and causes no other error.
TEST(Cause, MayBeALongText) {
  Party run(2);
  Store zero(run.of(0)), one(run.of(1));
  one.fail("why" + std::string(3 << 20, 'y'));
  const std::string what = zero.loss(10s);
  EXPECT_TRUE(what.starts_with("rank 1 failed: whyyy")) << what.substr(0, 100);
  EXPECT_EQ(what, one.loss(10s));
}

}  // namespace
}  // namespace nanofsdp::testing
