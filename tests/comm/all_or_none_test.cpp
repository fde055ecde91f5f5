#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/local.h"
#include "comm/rank_data.h"

// A collective of threads ends, and it succeeds on all its ranks or on none, whenever one of them
// is late, leaves or is aborted.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using std::chrono::microseconds;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t n = 1000;

// The behaviour of ranks: at most `calls` calls, each late with a probability of one in `late`.
struct Habits {
  int calls, late;
  std::chrono::milliseconds timeout;

  // A delay that is about as long as the timeout of a rank.
  microseconds delay(std::mt19937& random) const {
    const int percent = 98 + static_cast<int>(random() % 12);
    return static_cast<int>(random() % 1000) % late == 0 ? microseconds(timeout) * percent / 100
                                                         : 0us;
  }
};

// Makes calls until one fails, which frees its operands at once, or until this rank has made
// enough.
// @returns the number of calls that succeeded
int count_successes(Communicator& comm, std::mt19937 random, const Habits& habits) {
  const auto stream = make_compute_stream(Device::cpu, 1);
  const int last = comm.size() - 1, most = 1 + static_cast<int>(random() % 1000) % habits.calls;
  int successes = 0;
  try {
    for (; successes < most; ++successes) {
      if (comm.rank() > 0) std::this_thread::sleep_for(habits.delay(random));
      std::vector<float> mine = numbers<float>(comm.rank(), n);
      std::vector<float> all(static_cast<std::size_t>(n * comm.size()));
      comm.all_gather(*stream, view(mine), view(all));
      EXPECT_EQ(first_difference(slice(all, last * n, n), numbers<float>(last, n)), -1);
    }
  } catch (const comm::CommError&) {  // late, aborted, or left by another rank
  }
  return successes;
}

// Tests one group. Ranks leave it when they have made enough calls. Rank 0's end stays, and may be
// aborted.
void expect_all_or_none(unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  // Half of the groups make only one call, in which most things happen at the same moment.
  const bool few = seed % 2 == 0;
  const int size = few ? 2 : 2 + static_cast<int>(random() % 3);
  const Habits habits{.calls = few ? 1 : 20,
                      .late = few ? 1 : 8,
                      .timeout = std::chrono::milliseconds(few ? 1 : 1 + random() % 3)};
  auto ranks = comm::make_local_group(size, {.timeout = habits.timeout});
  std::vector<std::future<int>> ends;
  for (auto& rank : ranks) {
    const unsigned own = random();
    ends.push_back(std::async(std::launch::async, [&rank, &habits, own] {
      const int successes = count_successes(*rank, std::mt19937(own), habits);
      if (rank->rank() > 0) rank.reset();
      return successes;
    }));
  }
  if (few || random() % 2 == 0) {
    std::this_thread::sleep_for(habits.delay(random));
    ranks[0]->abort("enough");
  }
  std::vector<int> successes;
  for (auto& end : ends) {
    if (end.wait_for(60s) != std::future_status::ready) std::abort();  // it hangs
    successes.push_back(end.get());
  }
  EXPECT_EQ(std::ranges::count(successes, successes[0]), size)
      << ::testing::PrintToString(successes);
}

// Many groups run at once, and mostly sleep.
TEST(AllOrNone, WhateverTheMoment) {
  const auto end = Clock::now() + 1s;
  std::vector<std::future<void>> crews;
  for (unsigned crew = 0; crew < 6; ++crew) {
    crews.push_back(std::async(std::launch::async, [crew, end] {
      for (unsigned round = 0; Clock::now() < end; ++round) expect_all_or_none(6 * round + crew);
    }));
  }
  for (auto& crew : crews) crew.get();
}

// A stream whose loops fail, like those of a broken GPU.
class BrokenStream final : public Stream {
 public:
  void enqueue(std::function<void()> work) override { work(); }
  Event record() override { return {}; }
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}

 private:
  void parallel_ranges(std::int64_t, std::int64_t, const RangeBody&) override {
    throw std::runtime_error("no such kernel");
  }
};

// A rank that has met the others and cannot read must not free its operand while they still read
// it, and they must not wait for it for ever.
TEST(AllOrNone, ARankThatCannotReadLetsTheOthersRead) {
  constexpr std::int64_t many = 1 << 20;
  comm::launch_threads(3, 1, [](Context& context, std::unique_ptr<Communicator> world) {
    for (int round = 0; round < 2; ++round) {
      std::vector<float> mine(many, 1.0f), all(3 * many);
      if (context.rank == 1) {
        BrokenStream broken;
        EXPECT_THROW(world->all_gather(broken, view(mine), view(all)), std::runtime_error);
        std::ranges::fill(mine, -1.0f);
      } else {
        world->all_gather(*context.compute, view(mine), view(all));
        EXPECT_EQ(std::ranges::count(all, 1.0f), 3 * many);
      }
    }
  });
}

}  // namespace
}  // namespace nanofsdp::testing
