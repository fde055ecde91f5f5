#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/transfer.h"
#include "comm/rank_data.h"
#include "nccl/collective_checks.h"
#include "support/ranks.h"

// Tests collectives of threads between streams that do no work before a thread waits for them.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;

class LateStreams : public ::testing::TestWithParam<int> {};

Tensor host(std::vector<float>& x) {
  return Tensor(x.data(), {static_cast<std::int64_t>(x.size())});
}

// The operand is written just before the collective and overwritten right after it, by another
// stream than the one that reads it, on this rank and on others.
TEST_P(LateStreams, OperandsAreReadyBeforeAndFreeAfterwards) {
  run_ranks(Backend::local, GetParam(), [](Context& context, Communicator& world) {
    constexpr std::int64_t n = 33;
    const int size = world.size(), rank = world.rank();
    const std::vector<float> zeros(n * size);
    const OnDevice<float> in(context, zeros), all(context, zeros), sum(context, slice(zeros, 0, n));
    std::vector<float> spoilt(n * size, -1.0f);
    for (int round = 0; round < 10; ++round) {
      std::vector<float> fresh = numbers<float>(rank + round, n * size), got(n * size), part(n);
      transfer(*context.compute, host(fresh), in.tensor());
      context.gather->wait(context.compute->record());
      const bool gather = round % 2 == 0;
      const Event done =
          gather ? world.all_gather(*context.gather, in.tensor().slice(0, n), all.tensor())
                 : world.reduce_scatter(*context.gather, in.tensor(), sum.tensor(), ReduceOp::sum);
      context.compute->wait(done);
      transfer(*context.compute, host(spoilt), in.tensor());
      transfer(*context.compute, gather ? all.tensor() : sum.tensor(),
               gather ? host(got) : host(part));
      transfer(*context.compute, host(spoilt), all.tensor());
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
    for (int round = 0; round < 10; ++round) {
      const OnDevice<float> in(context, numbers<float>(context.rank + round, 9));
      const OnDevice<float> all(context, std::vector<float>(9 * context.world_size));
      std::unique_ptr<Communicator> group = world->split(0);
      group->all_gather(*context.gather, in.tensor(), all.tensor());
      group.reset();
      EXPECT_EQ(first_difference(slice(all.values(), 0, 9), numbers<float>(round, 9)), -1);
    }
  };
  run_ranks(Backend::local, GetParam(), body);
}

INSTANTIATE_TEST_SUITE_P(Ranks, LateStreams, ::testing::Values(2, 3, 4));

// The device cannot wait for a thread, so the host does.
TEST(StreamOfAGpu, WaitsForAThread) {
  use_device(Device::cuda, 0);
  const auto gpu = make_compute_stream(Device::cuda, 1);
  const auto thread = make_communication_stream(Device::cpu);
  std::atomic<bool> done = false;
  thread->enqueue([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    done = true;
  });
  gpu->wait(thread->record());
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace nanofsdp::testing
