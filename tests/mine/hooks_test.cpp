#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <set>
#include <string>

#include "mine/wrong_hooks.h"

// The checker of lesson 11 accepts the right hooks, and names the first thing that wrong hooks do.

namespace lesson::wrong {
namespace {

const Lines& library() {
  static const Lines lines = library_lines();
  return lines;
}

TEST(Hooks, ThatAreRightTrainWithTheLibrarysEventsBytesAndBits) {
  const Difference difference = referee(kRight, library());
  EXPECT_EQ(difference.where, "") << difference.yours << " instead of " << difference.right;
  const Lines yours = hooked_lines(kRight, 30);
  EXPECT_EQ(yours, library());
  EXPECT_EQ(yours[0].back(), "end");
}

// The passes have all that the exercise demands.
TEST(Hooks, MeetEveryKindOfPass) {
  bool several = false, unused = false, evaluation = false;
  for (const Pass& pass : passes()) {
    const std::set<int> called(pass.calls.begin(), pass.calls.end());
    several = several || called.size() < pass.calls.size();
    unused = unused || (pass.training && called.size() < kBlocks);
    evaluation = evaluation || !pass.training;
  }
  EXPECT_TRUE(several && unused && evaluation);
}

// The passes are partly random. `make grade` draws them by other seeds.
TEST(Hooks, ThatAreRightAgreeInRandomPasses) {
  for (const char* seed : {"1", "2", "3"}) {
    setenv("NANOFSDP_SEED", seed, /*overwrite=*/1);
    EXPECT_EQ(hooked_lines(kRight, 30), library_lines()) << "seed " << seed;
  }
  unsetenv("NANOFSDP_SEED");
}

class AWrongHook : public ::testing::TestWithParam<Mistake> {};

TEST_P(AWrongHook, IsNamedByTheFirstThingThatItDoes) {
  FourHooks hooks = kRight;
  GetParam().make(hooks);
  const Difference said = referee(hooks, library());
  EXPECT_EQ(said.where, GetParam().where);
  EXPECT_TRUE(said.yours.starts_with(GetParam().yours)) << said.yours;
  EXPECT_TRUE(said.right.starts_with(GetParam().right)) << said.right;
  EXPECT_NE(said.yours, said.right);
  EXPECT_NE(said.hint, "");
}

INSTANTIATE_TEST_SUITE_P(Hooks, AWrongHook, ::testing::ValuesIn(mistakes()),
                         [](const auto& info) { return std::string(info.param.name); });

// A hook that crashes or does not return is named, too. Ranks must be processes for that.
TEST(Hooks, ThatCrashOrDoNotReturnAreNamed) {
  if (comm::default_backend() != comm::Backend::gloo) GTEST_SKIP() << "ranks are threads";
  FourHooks hooks = kRight;
  hooks.pre_backward = [](HookedUnit& unit) {
    if (!unit.is_root()) raise(SIGKILL);
    unit.borrow(), unit.zero();
  };
  Difference said = referee(hooks, library());
  EXPECT_EQ(said.where, "pass 1 (training, calls h.0 h.1 h.2), pre_backward of h.2");
  EXPECT_NE(said.yours.find("was killed by signal 9"), said.yours.npos) << said.yours;

  hooks.pre_backward = [](HookedUnit& unit) {
    volatile bool on = !unit.is_root();
    while (on) {
    }
    unit.borrow(), unit.zero();
  };
  said = referee(hooks, library(), /*patience=*/5);
  EXPECT_EQ(said.where, "pass 1 (training, calls h.0 h.1 h.2), pre_backward of h.2");
  EXPECT_EQ(said.yours, "then it stops: the hook has not returned after 5 seconds");
}

// If ranks call different verbs, one waits for the other.
TEST(Hooks, ThatDifferBetweenRanksAreNamed) {
  if (comm::default_backend() != comm::Backend::gloo) GTEST_SKIP() << "ranks are threads";
  static std::atomic<int>* calls =
      new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
  FourHooks hooks = kRight;
  hooks.pre_forward = [](HookedUnit& unit) {
    if (unit.is_root() || calls->fetch_add(1) > 0) unit.gather();
  };
  const Difference said = referee(hooks, library());
  EXPECT_EQ(said.where, "pass 1 (training, calls h.0 h.1 h.2), pre_forward of h.0");
  EXPECT_TRUE(said.yours == "nothing" || said.yours.find("then it stops") != said.yours.npos)
      << said.yours;
}

}  // namespace
}  // namespace lesson::wrong
