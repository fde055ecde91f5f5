#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "emulation/nccl_ranks.h"
#include "nccl/device_training.h"

// Promise 1 on emulated GPUs with NCCL between them: every strategy gives the bits that it gives
// with ranks that are threads of one process.

namespace nanofsdp::testing {
namespace {

// A strategy, and the number of ranks that train with it.
struct Case {
  int strategy = 0;  // its row of the table
  int ranks = 0;
  int shard_size = 0;
};

std::vector<Case> cases() {
  std::vector<Case> all{{3, 1, 0}, {5, 4, 2}};
  for (int strategy = 0; strategy < 5; ++strategy) {
    for (int ranks = 2; ranks <= 4; ++ranks) all.push_back({strategy, ranks, 0});
  }
  return all;
}

class NcclSteps : public ::testing::TestWithParam<Case> {};

TEST_P(NcclSteps, HaveTheBitsTheTrafficAndTheOrderOfThreads) {
  const auto [strategy, ranks, shard_size] = GetParam();
  const auto options = trainings(fsdp::kShardings[static_cast<std::size_t>(strategy)]);
  const auto want = trained_by_threads(ranks, shard_size, options);
  std::vector<std::vector<Seen>> got(want.size());
  const auto body = [&](Context& context, Store&, std::unique_ptr<comm::Communicator> world) {
    got[static_cast<std::size_t>(context.rank)] =
        trained(context, std::move(world), shard_size, options);
  };
  EXPECT_EQ(run_on_nccl(ranks, body), std::vector<std::string>(want.size()));
  for (std::size_t rank = 0; rank < want.size(); ++rank) {
    SCOPED_TRACE(rank);
    expect_same(got[rank], want[rank], ranks, shard_size);
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const auto [strategy, ranks, shard_size] = info.param;
  return std::string(fsdp::kShardings[static_cast<std::size_t>(strategy)].name) + "_of_" +
         std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(Emulated, NcclSteps, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace nanofsdp::testing
