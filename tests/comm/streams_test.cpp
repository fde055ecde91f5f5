#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "comm/rank_data.h"
#include "support/errors.h"
#include "support/ranks.h"

// Tests one communicator on two streams. Which call comes first would depend on time, and might
// differ between ranks.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using namespace std::chrono_literals;

class TwoStreams : public ::testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TwoStreams, ::testing::ValuesIn(backends()),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(TwoStreams, AreRefusedWhileACallIsUnderWayAndBothCallsAreNamed) {
  run_ranks(GetParam(), 2, [](Context& context, Communicator& world) {
    const auto signals = world.split(0);
    std::vector<float> part(4, 1.0f), whole(8), sum(4);
    if (context.rank == 1) signals->barrier(*context.compute).synchronize();
    const Event gathered =
        world.all_gather(*context.gather, view(part), view(whole), {.unit = "h.0"});
    if (context.rank == 0) {  // rank 1 has not come
      for (Stream* other : {context.reduce.get(), context.compute.get()}) {
        const auto reduce = [&] {
          world.reduce_scatter(*other, view(whole), view(sum), ReduceOp::sum, {.unit = "h.1"});
        };
        expect_error<Error>(reduce, "expected all_gather of 4 float32 a rank for unit h.0");
        expect_error<Error>(reduce, "reduce_scatter (sum) of 4 float32 a rank for unit h.1 on ano");
      }
      signals->barrier(*context.compute).synchronize();
    }
    gathered.synchronize();
    EXPECT_EQ(whole, std::vector<float>(8, 1.0f));
    // A refused call does not count. When a call is over, the next one may be on any stream.
    world.reduce_scatter(*context.reduce, view(whole), view(sum), ReduceOp::sum).synchronize();
    world.barrier(*context.compute).synchronize();
    EXPECT_EQ(sum, std::vector<float>(4, 2.0f));
  });
}

// This also holds for groups that were split off, and a call of one group does not affect the other
// group.
TEST_P(TwoStreams, AreForTwoCommunicators) {
  run_ranks(GetParam(), 3, [](Context& context, Communicator& world) {
    const auto twin = world.split(0);
    std::vector<float> part(1000, 1.0f), whole(3000), sums(3000, 1.0f), sum(1000);
    for (int i = 0; i < 20; ++i) {
      const Event gathered = world.all_gather(*context.gather, view(part), view(whole));
      const Event reduced =
          twin->reduce_scatter(*context.reduce, view(sums), view(sum), ReduceOp::sum);
      gathered.synchronize();
      reduced.synchronize();
      EXPECT_EQ(sum, std::vector<float>(1000, 3.0f));
    }
  });
}

// A split is a call too, on the caller's thread. It comes after the calls that were issued before
// it.
TEST_P(TwoStreams, ASplitComesAfterTheCallsBeforeIt) {
  run_ranks(GetParam(), 2, [](Context& context, Communicator& world) {
    for (int i = 0; i < 10; ++i) {
      std::vector<float> part(50'000, static_cast<float>(i)), whole(100'000);
      if (context.rank == i % 2) std::this_thread::sleep_for(5ms);
      const Event gathered = world.all_gather(*context.gather, view(part), view(whole));
      const auto twin = world.split(0);
      twin->barrier(*context.compute).synchronize();
      gathered.synchronize();
      EXPECT_EQ(whole, std::vector<float>(100'000, static_cast<float>(i)));
    }
  });
}

}  // namespace
}  // namespace nanofsdp::testing
