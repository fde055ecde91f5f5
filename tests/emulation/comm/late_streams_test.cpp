#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/transfer.h"
#include "comm/rank_data.h"
#include "cuda_runtime.h"
#include "support/ranks.h"

// Collectives between streams that do nothing before somebody waits for them.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;

// For all tests of this program: what they see is what they have waited for.
[[maybe_unused]] const bool late = (emulation::be_late(), true);

class LateStreams : public ::testing::TestWithParam<int> {};

Tensor host(std::vector<float>& x) {
  return Tensor(x.data(), {static_cast<std::int64_t>(x.size())});
}

// The operand is made just before and overwritten right after, by another stream than the one that
// reads it, here and on the other ranks.
TEST_P(LateStreams, OperandsAreReadyBeforeAndFreeAfterwards) {
  run_ranks(Backend::local, GetParam(), [](Context& context, Communicator& world) {
    constexpr std::int64_t n = 33;
    const int size = world.size(), rank = world.rank();
    std::vector<float> in(n * size), all(n * size), sum(n), spoilt(n * size, -1.0f);
    for (int round = 0; round < 10; ++round) {
      std::vector<float> fresh = numbers<float>(rank + round, n * size), got(n * size), part(n);
      transfer(*context.compute, host(fresh), view(in));
      context.gather->wait(context.compute->record());
      const bool gather = round % 2 == 0;
      const Event done =
          gather ? world.all_gather(*context.gather, view(in).slice(0, n), view(all))
                 : world.reduce_scatter(*context.gather, view(in), view(sum), ReduceOp::sum);
      context.compute->wait(done);
      transfer(*context.compute, host(spoilt), view(in));
      transfer(*context.compute, gather ? view(all) : view(sum), gather ? host(got) : host(part));
      transfer(*context.compute, host(spoilt), view(all));
      context.compute->synchronize();
      SCOPED_TRACE("round " + std::to_string(round));
      for (int peer = 0; gather && peer < size; ++peer) {
        ASSERT_EQ(first_difference(slice(got, peer * n, n), numbers<float>(peer + round, n)), -1);
      }
      for (std::int64_t i = 0; !gather && i < n; ++i) {
        float want = number(round, rank * n + i);
        for (int peer = 1; peer < size; ++peer) want += number(peer + round, rank * n + i);
        ASSERT_EQ(bits(part[i]), bits(want)) << i;
      }
      context.gather->wait(context.compute->record());
    }
  });
}

TEST_P(LateStreams, ACommunicatorWaitsForItsWorkBeforeItGoes) {
  const auto body = [](Context& context, std::unique_ptr<Communicator> world) {
    std::vector<float> in = numbers<float>(context.rank, 9), all(9 * context.world_size);
    world->all_gather(*context.gather, view(in), view(all));
    world.reset();
    EXPECT_EQ(first_difference(slice(all, 0, 9), numbers<float>(0, 9)), -1);
  };
  run_ranks(Backend::local, GetParam(), body);
}

INSTANTIATE_TEST_SUITE_P(Ranks, LateStreams, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace nanofsdp::testing
