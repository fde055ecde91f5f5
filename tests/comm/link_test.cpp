#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "comm/local.h"
#include "comm/rank_data.h"
#include "support/errors.h"

// Tests the pretended link of local groups. All bounds are lower bounds, because a machine may
// always be slower.

namespace nanofsdp::testing {
namespace link_test {
namespace {

using comm::Communicator;
using comm::Link;
using comm::ReduceOp;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::int64_t n = 10000;

// The time that `collective` takes on `stream`, until its event.
template <class Collective>
Seconds time_of(const Collective& collective) {
  const auto start = Clock::now();
  collective().synchronize();
  return Clock::now() - start;
}

void run_linked(int world_size, const Link& link,
                const std::function<void(Context&, std::unique_ptr<Communicator>)>& body) {
  comm::launch_threads(world_size, 1, body, {.link = link});
}

TEST(Link, PredictsLatencyPlusBytesOverBandwidth) {
  const Link link{.bytes_per_second = 1000, .latency = 2ms};
  EXPECT_DOUBLE_EQ(link.time_for(0).count(), 0.002);
  EXPECT_DOUBLE_EQ(link.time_for(500).count(), 0.502);
  EXPECT_EQ(Link{}.time_for(1 << 30).count(), 0);
}

class Linked : public ::testing::TestWithParam<int> {};

TEST_P(Linked, CollectivesTakeAsLongAsWhatTheyReceiveAndGiveTheSame) {
  const Link link{.bytes_per_second = 2e6, .latency = 5ms};
  run_linked(GetParam(), link, [&](Context& context, std::unique_ptr<Communicator> world) {
    const int size = world->size(), rank = world->rank();
    const std::size_t chunk = n * sizeof(float);
    std::vector<float> in = numbers<float>(rank, n), all(static_cast<std::size_t>(size * n));
    EXPECT_GE(time_of([&] { return world->all_gather(*context.gather, view(in), view(all)); }),
              link.time_for((size - 1) * chunk));
    for (int peer = 0; peer < size; ++peer) {
      EXPECT_EQ(first_difference(slice(all, peer * n, n), numbers<float>(peer, n)), -1);
    }

    std::vector<double> wide(n), wide_all(static_cast<std::size_t>(size * n));
    const Tensor eight_bytes(wide.data(), {n}, DType::float64),
        of_all(wide_all.data(), {size * n}, DType::float64);
    EXPECT_GE(time_of([&] { return world->all_gather(*context.gather, eight_bytes, of_all); }),
              link.time_for((size - 1) * 2 * chunk));

    std::vector<float> x = numbers<float>(rank, size * n), part(in.size());
    const auto reduce = [&] {
      return world->reduce_scatter(*context.gather, view(x), view(part), ReduceOp::sum);
    };
    EXPECT_GE(time_of(reduce), link.time_for((size - 1) * chunk));
    EXPECT_EQ(first_difference(part, summed<float>(size, n, ReduceOp::sum, rank * n)), -1);

    std::vector<float> y = numbers<float>(rank, n);
    EXPECT_GE(time_of([&] { return world->broadcast(*context.gather, view(y), 1); }),
              link.time_for(rank == 1 ? 0 : chunk));
    EXPECT_EQ(first_difference(y, numbers<float>(1, n)), -1);

    EXPECT_GE(time_of([&] { return world->barrier(*context.gather); }), link.latency);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Linked, ::testing::Values(2, 3));

// The thread that issued the collective goes on, and no core works while the stream waits.
TEST(Link, HoldsTheStreamAndNotItsCallerNorACore) {
  const std::clock_t before = std::clock();
  run_linked(2, {.latency = 300ms}, [](Context& context, std::unique_ptr<Communicator> world) {
    const Event passed = world->barrier(*context.gather);
    EXPECT_FALSE(passed.ready()) << "the caller was held";
    passed.synchronize();
  });
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10) << "the wait took time of a core";
}

// A rank waits for bytes that it receives, and the root of a broadcast receives none.
TEST(Link, DoesNotHoldTheRootOfABroadcast) {
  std::array<Clock::time_point, 3> done;
  run_linked(3, {.bytes_per_second = 4 * n}, [&](Context& context, auto world) {
    std::vector<float> x(n);
    world->broadcast(*context.gather, view(x), 1).synchronize();
    done[static_cast<std::size_t>(context.rank)] = Clock::now();
    world->barrier(*context.gather).synchronize();  // a rank that leaves ends the others' waiting
  });
  EXPECT_LT(done[1] + 500ms, std::min(done[0], done[2])) << "the others take a second";
}

// The time of the link begins when the last rank comes, so this rank takes as long as the others.
TEST(Link, StartsWhenAllRanksHaveCome) {
  std::mutex mutex;
  Clock::time_point came, first_done = Clock::time_point::max();
  run_linked(3, {.latency = 80ms}, [&](Context& context, std::unique_ptr<Communicator> world) {
    if (context.rank == 2) {
      std::this_thread::sleep_for(100ms);
      came = Clock::now();
    }
    world->barrier(*context.gather).synchronize();
    const std::lock_guard lock(mutex);
    first_done = std::min(first_done, Clock::now());
  });
  EXPECT_GE(first_done - came, 80ms);
}

TEST(Link, IsInheritedByGroupsThatAreSplitOff) {
  const Link link{.bytes_per_second = 1e6, .latency = 1ms};
  run_linked(2, link, [&](Context& context, std::unique_ptr<Communicator> world) {
    const auto twin = world->split(0)->split(0);
    std::vector<float> in(n), all(2 * n);
    EXPECT_GE(time_of([&] { return twin->all_gather(*context.gather, view(in), view(all)); }),
              link.time_for(n * sizeof(float)));
  });
}

// If the abort waited for the link, or if a group of one rank had a link, this would take 40
// seconds.
TEST(Link, EndsWithAnAbort) {
  const auto start = Clock::now();
  comm::launch_threads(
      2, 1,
      [](Context& context, std::unique_ptr<Communicator> world) {
        std::vector<float> in(n), all(2 * n);
        const Event slow = world->all_gather(*context.gather, view(in), view(all));
        std::this_thread::sleep_for(30ms);
        world->abort("the test says so");
        try {
          slow.synchronize();
        } catch (const comm::CommError& e) {  // this rank had not met the others yet
          EXPECT_EQ(e.kind, comm::CommError::Kind::aborted);
        }
      },
      {.link = {.bytes_per_second = 1000}});
  run_linked(1, {.latency = 40s}, [](Context& context, std::unique_ptr<Communicator> alone) {
    alone->barrier(*context.compute);
  });
  EXPECT_LT(Clock::now() - start, 20s);
}

}  // namespace
}  // namespace link_test
}  // namespace nanofsdp::testing
