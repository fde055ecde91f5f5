#include <gtest/gtest.h>

#include <stdexcept>

#include "base/platform.h"
#include "launch/launch.h"

// A run may have one rank.

namespace nanofsdp::launch::one_rank_test {
namespace {

using namespace std::chrono_literals;

TEST(Store, OfOneRankBringsItsValues) {
  if (count_threads() > 1) GTEST_SKIP() << "a sanitizer's thread: such a process is not forked";
  const Outcome outcome = run_processes(1, [](Store& store) {
    store.set("k", "v");
    if (store.get("k", 10s) != "v") throw std::runtime_error("no value");
    if (store.get("other", 10ms)) throw std::runtime_error("a value that nobody set");
  });
  EXPECT_EQ(outcome.message, "");
}

}  // namespace
}  // namespace nanofsdp::launch::one_rank_test
