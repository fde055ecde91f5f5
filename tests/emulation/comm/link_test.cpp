#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "comm/local.h"
#include "comm/rank_data.h"
#include "nccl/collective_checks.h"

// Tests the pretended link between ranks that share a GPU. All bounds are lower bounds, because a
// machine may always be slower.

namespace nanofsdp::testing {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Each reads the others' memory, which a kernel on another GPU cannot.
TEST(GpuLink, RanksThatAreThreadsShareTheFirstOfSeveralGpus) {
  emulation::gpus = 2;
  comm::launch_threads(3, 1,
                       [](Context& context, const std::unique_ptr<comm::Communicator>&) {
                         int device = -1;
                         EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
                         EXPECT_EQ(device, 0) << context.rank;
                       },
                       {.device = Device::cuda});
  emulation::gpus = 1;
}

TEST(GpuLink, HoldsTheStreamOfACollective) {
  constexpr std::int64_t n = 1000;
  const comm::Link link{.bytes_per_second = 2e5, .latency = 5ms};
  const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    const std::vector<float> mine = numbers<float>(world->rank(), 2 * n), zeros(2 * n);
    const OnDevice<float> in(context, mine), all(context, zeros), sum(context, slice(zeros, 0, n));
    const auto time_of = [&](const auto& collective) {
      const auto start = Clock::now();
      collective().synchronize();
      return Clock::now() - start;
    };
    EXPECT_GE(time_of([&] {
                return world->all_gather(*context.gather, in.tensor().slice(0, n), all.tensor());
              }),
              link.time_for(n * sizeof(float)));
    EXPECT_GE(time_of([&] {
                return world->reduce_scatter(*context.gather, in.tensor(), sum.tensor(),
                                             comm::ReduceOp::sum);
              }),
              link.time_for(n * sizeof(float)));
    EXPECT_EQ(
        first_difference(sum.values(), summed<float>(2, n, comm::ReduceOp::sum, world->rank() * n)),
        -1);
    EXPECT_GE(time_of([&] { return world->barrier(*context.gather); }), link.latency);
  };
  comm::launch_threads(2, 1, body, {.link = link, .device = Device::cuda});
}

}  // namespace
}  // namespace nanofsdp::testing
