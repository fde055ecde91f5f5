#include "comm/nccl.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef NANOFSDP_CUDA
#include "comm/nccl_library.h"
#endif
#include "nccl/collective_checks.h"
#include "nccl/device_training.h"
#include "nccl/gpu.h"
#include "support/ranks.h"

// Tests NCCL between processes that share a GPU. CUDA does not survive a fork, so this process does
// not call it: the ranks do.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using launch::Outcome;
using launch::Store;
using namespace std::chrono_literals;

// Runs ranks that gather again and again; `disturb(rank)` is called while a collective is under
// way.
template <class Disturb>
Outcome run_disturbed(int size, const Disturb& disturb, std::chrono::milliseconds timeout = 60s) {
  return launch::run_processes(size, [&](Store& store) {
    Context context(store.rank(), size, 1, Device::cuda);
    const std::int64_t n = 1 << 18;
    const OnDevice<float> x(context, std::vector<float>(static_cast<std::size_t>(size * n)));
    const auto world = detail::connect(Backend::nccl, context, store, {.timeout = timeout});
    for (int i = 0;; ++i) {
      const Event done =
          world->all_reduce(*context.reduce, x.tensor(), ReduceOp::sum, {.unit = "h.0"});
      if (i == 3) disturb(store.rank());
      done.synchronize();
    }
  });
}

#ifdef NANOFSDP_CUDA
// The program is not linked to NCCL, so only loading it shows that it has the functions that we
// call.
TEST(Nccl, IsLoadedWithAllItsFunctions) {
  const comm::NcclLibrary nccl;
  EXPECT_STREQ(nccl.ncclGetErrorString(ncclSuccess), "no error");
}
#endif

TEST(Nccl, AnErrorWithoutAGpuIsOneLine) {
  if (!kCuda) GTEST_SKIP() << "this build has no CUDA";
  const Outcome outcome = launch::run_processes(2, [](Store& store) {
    Context context(store.rank(), 2);  // on the CPU, even if there is a GPU
    const auto world = detail::connect(Backend::nccl, context, store, {});
  });
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.message.find("backend nccl: expected ranks on a GPU, got "), 0u)
      << outcome.message;
  EXPECT_EQ(std::ranges::count(outcome.message, '\n'), 0) << outcome.message;
}

TEST(Nccl, AContextWithoutAGpuIsAnErrorOfOneLineToo) {
  if (why_no_gpu().empty()) return;  // there is a GPU
  const Outcome outcome =
      launch::run_processes(1, [](Store&) { const Context context(0, 1, 1, Device::cuda); });
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.message.find("use --device=cpu"), std::string::npos) << outcome.message;
  EXPECT_EQ(std::ranges::count(outcome.message, '\n'), 0) << outcome.message;
}

class OnOneGpu : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const std::string problem = why_no_gpu();
    if (!problem.empty()) GTEST_SKIP() << problem;
  }
};

TEST_P(OnOneGpu, CollectivesGiveWhatTheyMust) {
  run_ranks(Backend::nccl, GetParam(), [](Context& context, Communicator& world) {
    ASSERT_EQ(world.rank(), context.rank);
    ASSERT_EQ(world.size(), context.world_size);
    for (const std::int64_t n : {0, 1, 7, 4097, 100003}) check_collectives(context, world, n);
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, OnOneGpu, ::testing::Values(1, 2, 4));

class GroupsOnOneGpu : public OnOneGpu {};
INSTANTIATE_TEST_SUITE_P(Four, GroupsOnOneGpu, ::testing::Values(4));

TEST_P(GroupsOnOneGpu, AreSplitByColorAndOutliveTheWorld) {
  run_ranks(Backend::nccl, GetParam(), [](Context& context, std::unique_ptr<Communicator> world) {
    check_splits(context, std::move(world));
  });
}

TEST_P(GroupsOnOneGpu, SumOnTheRingInAnOrderOfItsOwn) {
  const RankOptions ring{.reduction = comm::Reduction::ring};
  const auto sum = [](Context& context, Communicator& world) {
    check_collectives(context, world, 4097, comm::Reduction::ring);
    const OnDevice<float> x(context, numbers<float>(world.rank(), 4 * 4097));
    world.all_reduce(*context.reduce, x.tensor(), ReduceOp::average).synchronize();
    return x.values();
  };
  const auto first = run_ranks(Backend::nccl, GetParam(), sum, ring);
  for (const auto& rank : first) EXPECT_EQ(first_difference(rank, first[0]), -1);
  EXPECT_EQ(run_ranks(Backend::nccl, GetParam(), sum, ring), first) << "another run";
  EXPECT_NE(first_difference(first[0], summed<float>(4, 4 * 4097, ReduceOp::average)), -1);
}

// The number of ranks and, if it is not 0, of those of a shard group under a hybrid strategy.
class TrainingOnOneGpu : public ::testing::TestWithParam<std::pair<int, int>> {
 protected:
  void SetUp() override {
    const std::string problem = why_no_gpu();
    if (!problem.empty()) GTEST_SKIP() << problem;
  }
};
INSTANTIATE_TEST_SUITE_P(RanksAndShardSize, TrainingOnOneGpu,
                         ::testing::Values(std::pair(2, 0), std::pair(4, 0), std::pair(4, 2)));

// Every rank also trains with threads of its own, which do the same without NCCL.
TEST_P(TrainingOnOneGpu, HasTheBitsTheTrafficAndTheOrderOfThreads) {
  const int ranks = GetParam().first, shard_size = GetParam().second;
  const auto all = all_trainings(/*hybrid=*/shard_size > 0);
  run_ranks(Backend::nccl, ranks, [&](Context& context, std::unique_ptr<Communicator> world) {
    const std::vector<Seen> got = trained(context, std::move(world), shard_size, all);
    expect_same(got, trained_by_threads(ranks, shard_size, all)[context.rank], ranks, shard_size);
  });
}

class TroubleOnOneGpu : public OnOneGpu {};
INSTANTIATE_TEST_SUITE_P(Three, TroubleOnOneGpu, ::testing::Values(3));

TEST_P(TroubleOnOneGpu, NamesTheRankThatWasKilled) {
  const Outcome outcome =
      run_disturbed(GetParam(), [](int rank) { rank == 1 ? raise(SIGKILL) : 0; });
  EXPECT_EQ(outcome.exit_code, 128 + SIGKILL);
  EXPECT_EQ(outcome.message.find("rank 1 was killed by signal 9"), 0u) << outcome.message;
}

TEST_P(TroubleOnOneGpu, TellsTheCauseAndNotItsConsequences) {
  const Outcome outcome = run_disturbed(GetParam(), [](int rank) {
    if (rank == 2) throw std::runtime_error("the disk is full");
  });
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.message, "rank 2: the disk is full");
}

TEST_P(TroubleOnOneGpu, ARankThatDoesNotComeIsATimeoutWithTheLastCalls) {
  const Outcome outcome = run_disturbed(
      GetParam(), [](int rank) { std::this_thread::sleep_for(rank == 1 ? 20s : 0s); }, 2s);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.message.find(" waited 2000 ms in vain for the others in all_gather "),
            std::string::npos)
      << outcome.message;
  EXPECT_NE(outcome.message.find(" float32 a rank for unit h.0\n  rank "), std::string::npos)
      << outcome.message;
}

}  // namespace
}  // namespace nanofsdp::testing

// The exit code 77 tells ctest and scripts that tests were skipped.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  return code == 0 && ::testing::UnitTest::GetInstance()->skipped_test_count() > 0 ? 77 : code;
}
