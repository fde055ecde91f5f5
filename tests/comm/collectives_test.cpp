#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "comm/rank_data.h"
#include "support/ranks.h"

// Compares every backend, bit for bit, with one process that adds in rank order.

namespace nanofsdp::testing::collectives_test {
namespace {

using comm::Communicator;
using comm::ReduceOp;

// 4097 is odd, and slightly more than a block of the sum. 100003 float32 elements for each rank are
// one message. 600011 elements are three segments of a reduce_scatter, the last of them short.
constexpr std::int64_t kSizes[] = {0, 1, 7, 4097, 100003, 600011};
// Emulated kernels are slow, and have no messages.
constexpr std::int64_t kMost = kDevice == Device::cpu ? 600011 : 4097;

class Collectives : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  // Runs `check(context, comm, n)` on every rank, for every size.
  template <class Check>
  void for_each_size(const Check& check) {
    const auto [backend, world_size] = GetParam();
    run_ranks(backend, world_size, [&](Context& context, Communicator& comm) {
      ASSERT_EQ(comm.rank(), context.rank);
      ASSERT_EQ(comm.size(), context.world_size);
      for (const std::int64_t n : kSizes) {
        if (n > kMost) break;
        SCOPED_TRACE("n = " + std::to_string(n) + ", rank " + std::to_string(comm.rank()));
        check(context, comm, n);
      }
    });
  }
};

// The right result of an all_gather of n elements for each rank.
template <class T>
std::vector<T> gathered(int world_size, std::int64_t n) {
  std::vector<T> all;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::vector<T> one = numbers<T>(rank, n);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

template <class T>
void check_all_gather(Context& context, Communicator& comm, std::int64_t n) {
  const std::vector<T> want = gathered<T>(comm.size(), n);
  const std::vector<T> mine = numbers<T>(comm.rank(), n);
  std::vector<T> in = mine, out(want.size());
  comm.all_gather(*context.gather, view(in), view(out)).synchronize();
  EXPECT_EQ(first_difference(out, want), -1);
  EXPECT_EQ(first_difference(in, mine), -1);

  std::vector<T> whole(want.size());
  std::copy(mine.begin(), mine.end(), whole.begin() + comm.rank() * n);
  comm.all_gather(*context.compute, view(whole).slice(comm.rank() * n, n), view(whole))
      .synchronize();
  EXPECT_EQ(first_difference(whole, want), -1) << "in place";
}

template <class T>
void check_reduce_scatter(Context& context, Communicator& comm, std::int64_t n, ReduceOp op) {
  const std::int64_t first = comm.rank() * n;
  const std::vector<T> want = summed<T>(comm.size(), n, op, first);
  const std::vector<T> whole = numbers<T>(comm.rank(), comm.size() * n);
  std::vector<T> in = whole, out(want.size());
  comm.reduce_scatter(*context.reduce, view(in), view(out), op).synchronize();
  EXPECT_EQ(first_difference(out, want), -1);
  EXPECT_EQ(first_difference(in, whole), -1) << "the input changed";

  comm.reduce_scatter(*context.compute, view(in), view(in).slice(first, n), op).synchronize();
  EXPECT_EQ(first_difference(slice(in, first, n), want), -1) << "in place";
  std::copy(want.begin(), want.end(), in.begin() + first);
  std::vector<T> rest = whole;
  std::copy(want.begin(), want.end(), rest.begin() + first);
  EXPECT_EQ(first_difference(in, rest), -1) << "in place, outside the rank's chunk";
}

template <class T>
void check_all_reduce(Context& context, Communicator& comm, std::int64_t n, ReduceOp op) {
  std::vector<T> x = numbers<T>(comm.rank(), comm.size() * n);
  comm.all_reduce(*context.reduce, view(x), op).synchronize();
  EXPECT_EQ(first_difference(x, summed<T>(comm.size(), comm.size() * n, op)), -1);
}

TEST_P(Collectives, AllGatherConcatenatesInRankOrder) {
  for_each_size([](Context& context, Communicator& comm, std::int64_t n) {
    check_all_gather<float>(context, comm, n);
    check_all_gather<bfloat16>(context, comm, n);
  });
}

TEST_P(Collectives, ReduceScatterSumsInRankOrderAndKeepsItsInput) {
  for_each_size([](Context& context, Communicator& comm, std::int64_t n) {
    check_reduce_scatter<float>(context, comm, n, ReduceOp::sum);
    check_reduce_scatter<bfloat16>(context, comm, n, ReduceOp::sum);
  });
}

TEST_P(Collectives, ReduceScatterAveragesBySumTimesOneOverW) {
  for_each_size([](Context& context, Communicator& comm, std::int64_t n) {
    check_reduce_scatter<float>(context, comm, n, ReduceOp::average);
    check_reduce_scatter<bfloat16>(context, comm, n, ReduceOp::average);
  });
}

// Numbers that are sent as bfloat16 may arrive as a float32 sum, which is not rounded.
TEST_P(Collectives, SumsOfBfloat16MayArriveInFloat32) {
  for_each_size([](Context& context, Communicator& comm, std::int64_t n) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      const auto mine = numbers<bfloat16>(comm.rank(), comm.size() * n);
      auto in = mine;
      std::vector<float> part(static_cast<std::size_t>(n)), all(mine.size());
      const Traffic before = comm.traffic();
      comm.reduce_scatter(*context.reduce, view(in), view(part), op).synchronize();
      comm.all_reduce(*context.reduce, view(in), view(all), op).synchronize();
      const auto want = summed<bfloat16, float>(comm.size(), comm.size() * n, op);
      EXPECT_EQ(first_difference(part, slice(want, comm.rank() * n, n)), -1);
      EXPECT_EQ(first_difference(all, want), -1);
      EXPECT_EQ(first_difference(in, mine), -1) << "the input changed";
      // Two bytes an element are sent for each sum, and four for the sums of an all-reduce.
      const Traffic t = comm.traffic() - before;
      EXPECT_EQ(t.bytes_sent, (comm.size() - 1) * n * (2 + 2 + 4));
      EXPECT_EQ(t.bytes_received, t.bytes_sent);
      EXPECT_EQ(t.reduce_scatters, 1);
      EXPECT_EQ(t.all_reduces, 1);
      EXPECT_EQ(t.all_gathers, 0);
    }
  });
}

TEST_P(Collectives, AllReduceIsReduceScatterAndAllGather) {
  for_each_size([](Context& context, Communicator& comm, std::int64_t n) {
    check_all_reduce<float>(context, comm, n, ReduceOp::sum);
    check_all_reduce<float>(context, comm, n, ReduceOp::average);
    check_all_reduce<bfloat16>(context, comm, n, ReduceOp::sum);
  });
}

TEST_P(Collectives, BroadcastCopiesTheRootsElements) {
  for_each_size([](Context& context, Communicator& comm, std::int64_t n) {
    for (int root = 0; root < comm.size(); ++root) {
      std::vector<float> x = numbers<float>(comm.rank(), n);
      comm.broadcast(*context.compute, view(x), root).synchronize();
      EXPECT_EQ(first_difference(x, numbers<float>(root, n)), -1) << "root " << root;
    }
  });
}

TEST_P(Collectives, GatherOtherTypesByteForByte) {
  const auto [backend, world_size] = GetParam();
  run_ranks(backend, world_size, [](Context& context, Communicator& comm) {
    std::vector<double> mine{1.0 / 3 + comm.rank()}, all(static_cast<std::size_t>(comm.size()));
    comm.all_gather(*context.compute, view(mine), view(all)).synchronize();
    for (int rank = 0; rank < comm.size(); ++rank) EXPECT_EQ(all[rank], 1.0 / 3 + rank);
  });
}

// The rank that reaches the barrier first must not pass it before the last one comes.
TEST_P(Collectives, NobodyPassesABarrierBeforeAllHaveReachedIt) {
  const auto [backend, world_size] = GetParam();
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto passed = run_ranks(backend, world_size, [&](Context& context, Communicator& comm) {
    comm.barrier(*context.compute);
    const auto last = std::chrono::milliseconds(60);
    if (comm.rank() + 1 == comm.size()) std::this_thread::sleep_for(last);
    const double arrived = std::chrono::duration<double>(Clock::now() - start).count();
    comm.barrier(*context.gather).synchronize();
    return std::vector<double>{arrived,
                               std::chrono::duration<double>(Clock::now() - start).count()};
  });
  for (const auto& rank : passed) EXPECT_GE(rank[1], passed.back()[0]);
}

std::string name(const ::testing::TestParamInfo<std::tuple<Backend, int>>& info) {
  return name_of(std::get<0>(info.param)) + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Self, Collectives,
                         ::testing::Values(std::tuple(Backend::self, 1),
                                           std::tuple(Backend::local, 1)),
                         name);
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
                         ::testing::Combine(::testing::ValuesIn(backends()),
                                            ::testing::Values(2, 3, 4)),
                         name);

}  // namespace
}  // namespace nanofsdp::testing::collectives_test
